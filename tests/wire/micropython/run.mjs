// Run a Python file in MicroPython: node run.mjs LIBRARY_FOLDER PURE_FILE. A call comes on stdin as
// one line of Python; what it prints goes to stdout.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [folder, pure] = process.argv.slice(2);
const module = join(folder, "node_modules/@micropython/micropython-webassembly-pyscript/micropython.mjs");
const { loadMicroPython } = await import(pathToFileURL(module));
const python = await loadMicroPython({ heapsize: 1024 * 1024, linebuffer: true });
python.FS.writeFile("/pure.py", readFileSync(pure));
try {
  python.runPython("import sys; sys.path.append('/')");
  python.runPython(readFileSync(0, "utf-8"));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
