// A run of the attack lab: how far it is, and precision and recall of every device as a chart.

import { draw, shown } from "./explorer_chart.js";

const going = document.getElementById("going");
const first = document.getElementById("first");

async function watch() {
  try {
    const answer = await fetch(going.dataset.state, { headers: { Accept: "application/json" } });
    if (answer.redirected || answer.status === 404) {
      location.reload();
      return;
    }
    const run = await answer.json();
    if (!["queued", "running"].includes(run.state)) {
      location.reload();
      return;
    }
    const bar = document.getElementById("progress");
    bar.max = run.total;
    bar.value = run.done;
    const text = `${run.done} of ${run.total}: ${run.doing}`;
    const words = document.getElementById("doing");
    if (words.textContent !== text) words.textContent = text;
  } catch {
    document.getElementById("doing").textContent = "The server does not answer; trying again.";
  }
  setTimeout(watch, 700);
}

function drawn(study) {
  const attack = document.getElementById("attack").value;
  const measure = document.getElementById("measure").value;
  const x = study.devices.map((_, place) => place + 1);
  const percent = (value) => (value === null ? null : 100 * value);
  const lines = study.results
    .filter((one) => one.attack === attack)
    .map((one, place) => ({ label: one.scheme, values: one[measure].map(percent), colour: place + 1, isDots: true }));
  lines.push({ label: "chance", values: x.map(() => 100 * study.chance), colour: 6 });
  const read = (place) => {
    if (place === null || place === undefined) return;
    const words = lines.map((one) => `${one.label} ${shown(one.values[place])} %`);
    document.getElementById("readout").textContent = `${study.devices[place]}: ${words.join(", ")}.`;
  };
  draw(document.getElementById("plot"), {
    x,
    lines,
    marks: [],
    log: { x: false, y: false },
    range: () => [-4, 104],
    labels: { x: "device", y: "" },
    onPoint: read,
  });
  const list = document.getElementById("legend");
  list.hidden = false;
  list.replaceChildren(
    ...lines.map((one) => {
      const item = document.createElement("li");
      const key = document.createElement("span");
      key.className = `key k${one.colour}`;
      item.append(key, ` ${one.label}`);
      return item;
    }),
  );
  document.getElementById("readout").textContent = `${measure === "recall" ? "Recall" : "Precision"} of ${attack}, in per cent. Point at a device to read it.`;
}

if (going) setTimeout(watch, 300);
if (first) {
  const study = JSON.parse(first.textContent);
  document.getElementById("views").hidden = false;
  for (const name of ["attack", "measure"]) document.getElementById(name).addEventListener("change", () => drawn(study));
  drawn(study);
}
