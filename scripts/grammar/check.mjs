// Reads passages and the names of rules as JSON on standard input, and prints what Harper finds as
// JSON. Nothing is asked of the network: the checker is WebAssembly, in the package.
import { readFileSync } from "node:fs";
import { Dialect, LocalLinter } from "harper.js";
import { binary } from "harper.js/binary";

const { passages, on } = JSON.parse(readFileSync(0, "utf8"));
const linter = new LocalLinter({ binary, dialect: Dialect.British });
await linter.setup();
const rules = Object.keys(await linter.getLintConfig());
await linter.setLintConfig(Object.fromEntries(rules.map((rule) => [rule, on.includes(rule)])));
const found = [];
for (const [index, text] of passages.entries()) {
  // A line that ends within emphasis would be joined with the next without a space.
  const lints = await linter.organizedLints(text.replaceAll("\n", " "), { language: "markdown" });
  for (const [rule, several] of Object.entries(lints))
    for (const lint of several) {
      const { start } = lint.span();
      found.push({ index, rule, start, words: lint.get_problem_text(), message: lint.message() });
    }
}
console.log(JSON.stringify({ found, unknown: on.filter((rule) => !rules.includes(rule)) }));
