// The Explorer with scripts: sliders and boxes that agree, one call to the server for each change,
// the question in the address, and a chart. All numbers come from the server.

import { draw, shown } from "./explorer_chart.js";

const form = document.getElementById("controls");
const results = document.getElementById("results");
const STEPS = 1000;
const NAMES = { unbiased_mean: "unbiased mean", sample_mean: "sample mean", bootstrap_mean: "bootstrap mean", median: "median" };
let asking = null;
let timer = 0;
let speaking = 0;
let curves = null;

function toValue(slider) {
  const share = Number(slider.value) / STEPS;
  const { scale, low, high, stops } = slider.dataset;
  const [from, to] = [Number(low), Number(high)];
  if (scale === "stops") {
    const all = stops.split(" ");
    return all[Math.round(share * (all.length - 1))];
  }
  let value = from + share * (to - from);
  if (scale === "log") value = from * (to / from) ** share;
  if (scale === "both") {
    // From -high to high, logarithmic beyond 1 on either side of 0.
    const place = 2 * share - 1;
    value = Math.sign(place) * (10 ** (Math.abs(place) * Math.log10(to + 1)) - 1);
  }
  if ("whole" in slider.dataset) return String(Math.round(Number(value.toPrecision(value < 1000 ? 3 : 2))));
  const short = Number(scale === "linear" ? value.toFixed(3) : value.toPrecision(2));
  return String(Math.abs(short) < 1e-9 && scale === "both" ? 0 : short).replace("e+", "e");
}

function toPlace(slider, text) {
  const { scale, low, high, stops } = slider.dataset;
  const [from, to] = [Number(low), Number(high)];
  let share;
  if (scale === "stops") {
    const all = stops.split(" ");
    const seconds = all.map(duration);
    const wanted = duration(text);
    let best = 0;
    seconds.forEach((one, place) => {
      if (Math.abs(Math.log(one / wanted)) < Math.abs(Math.log(seconds[best] / wanted))) best = place;
    });
    share = best / (all.length - 1);
  } else {
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value)) return null;
    share = (value - from) / (to - from);
    if (scale === "log") share = Math.log(Math.max(value, from) / from) / Math.log(to / from);
    if (scale === "both") share = (1 + (Math.sign(value) * Math.log10(Math.abs(value) + 1)) / Math.log10(to + 1)) / 2;
  }
  return Math.round(STEPS * Math.min(1, Math.max(0, share)));
}

function duration(text) {
  const found = /^\s*(\d+)\s*([a-z]*)\s*$/i.exec(text);
  const unit = { s: 1, m: 60, min: 60, h: 3600, d: 86400, w: 604800 };
  return found ? Number(found[1]) * (unit[(found[2] || "s").toLowerCase()] ?? NaN) : NaN;
}

function box(name) {
  return document.getElementById(`f-${name}`);
}

function follow(slider) {
  const text = box(slider.dataset.slider).value;
  const place = toPlace(slider, text);
  if (place !== null) slider.value = String(place);
  slider.setAttribute("aria-valuetext", text);
}

function setUp() {
  for (const slider of form.querySelectorAll("[data-slider]")) {
    slider.hidden = false;
    if (slider.dataset.scale === "stops") {
      // One step of the keyboard is one stop.
      slider.step = String(STEPS / (slider.dataset.stops.split(" ").length - 1));
    }
    follow(slider);
    const input = box(slider.dataset.slider);
    slider.addEventListener("input", () => {
      input.value = toValue(slider);
      slider.setAttribute("aria-valuetext", input.value);
      later(60);
    });
    input.addEventListener("input", () => follow(slider));
  }
  form.addEventListener("input", (event) => {
    if (!event.target.matches("[data-slider]")) later(event.target.matches("select") ? 0 : 200);
    robust();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    later(0);
  });
  document.getElementById("show").hidden = true;
  robust();
}

function robust() {
  const isOn = box("shuffle").value === "robust";
  for (const name of ["alpha", "groups"]) {
    form.querySelector(`[data-field="${name}"]`).classList.toggle("off", !isOn);
    box(name).disabled = !isOn;
    document.getElementById(`s-${name}`).disabled = !isOn;
  }
}

function later(wait) {
  clearTimeout(timer);
  timer = setTimeout(ask, wait);
}

async function ask() {
  asking?.abort();
  asking = new AbortController();
  const mine = asking;
  const query = new URLSearchParams(new FormData(form));
  results.classList.add("stale");
  results.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(`explorer/plan.json?${query}`, { signal: mine.signal, headers: { Accept: "application/json" } });
    if (answer.status === 400) {
      mistaken((await answer.json()).mistakes);
      return;
    }
    if (!answer.ok) throw new Error(`${answer.status}`);
    const found = await answer.json();
    mistaken({});
    show(found);
  } catch (error) {
    if (error.name !== "AbortError") mistaken({ "": "The server does not answer. What is shown is what it said last." });
  } finally {
    if (mine === asking) results.removeAttribute("aria-busy");
  }
}

function mistaken(mistakes) {
  for (const field of form.querySelectorAll("[data-field]")) {
    const name = field.dataset.field;
    const words = document.getElementById(`e-${name}`);
    words.textContent = mistakes[name] ?? "";
    words.hidden = !(name in mistakes);
    if (name in mistakes) {
      box(name).setAttribute("aria-invalid", "true");
      field.closest("details").open = true;
    } else box(name).removeAttribute("aria-invalid");
  }
  const whole = document.getElementById("whole-mistake");
  whole.textContent = mistakes[""] ?? "Shown are the last parameters that could be used.";
  whole.hidden = !Object.keys(mistakes).length;
}

function show(found) {
  if (!document.getElementById("plot")) {
    // The page came with mistakes and without results.
    location.href = `explorer?${found.query}`;
    return;
  }
  for (const place of document.querySelectorAll("#explorer [data-part]")) {
    place.innerHTML = found.html[place.dataset.part];
  }
  for (const [name, text] of Object.entries(found.texts)) {
    document.querySelector(`#text-${name} code`).textContent = text;
  }
  const query = found.query ? `?${found.query}` : "";
  history.replaceState(null, "", `explorer${query}`);
  document.getElementById("csv").href = `explorer/curves.csv${query}`;
  for (const next of document.querySelectorAll('form[action$="/theme"] input[name="next"]')) next.value = `${location.pathname}${query}`;
  curves = found.curves;
  results.classList.remove("stale");
  drawn();
  clearTimeout(speaking);
  // Not for every step of a slider: only what it comes to rest at is said.
  speaking = setTimeout(() => {
    const row = found.plan.errors.find((one) => one.estimator === "unbiased_mean" && one.readings === "worst");
    document.getElementById("said").textContent = `Error of a round ${shown(row.round.total)}. ${found.plan.guarantees[0].sentence}`;
  }, 900);
}

function chosen() {
  const view = document.getElementById("view").value;
  const estimator = document.getElementById("estimator").value;
  const mine = curves.mechanism;
  const named = (one) => (one.mechanism === mine ? one.estimator : null);
  if (view === "mechanisms") {
    return curves.series
      .filter((one) => one.estimator === estimator && one.mechanism !== "auto")
      .map((one, place) => ({ label: one.mechanism, values: one.error, colour: place + 1, isWide: one.mechanism === mine }));
  }
  if (view === "estimators") {
    return curves.series.filter(named).map((one, place) => ({ label: NAMES[one.estimator], values: one.error, colour: place + 1 }));
  }
  const one = curves.series.find((each) => named(each) === estimator);
  return [
    { label: "error", values: one.error, colour: 1, isWide: true },
    { label: "bias", values: one.bias, colour: 2 },
    { label: "noise", values: one.noise, colour: 3 },
  ];
}

function drawn() {
  if (!curves) return;
  const view = document.getElementById("view").value;
  const median = document.querySelector("#estimator option[value=median]");
  // The median is looked at for the mechanism in question alone.
  median.disabled = view === "mechanisms";
  const estimator = document.getElementById("estimator");
  if (median.disabled && estimator.value === "median") estimator.value = "unbiased_mean";
  estimator.disabled = view === "estimators";
  const lines = chosen();
  // A logarithmic axis has no place for 0.
  const positive = lines.map((one) => ({ ...one, values: one.values.map((value) => (value > 0 ? value : null)) }));
  const marks = [{ x: curves.asked, label: "ε" }];
  if (curves.epsilon_bound !== null) marks.push({ x: curves.epsilon_bound, label: "ε*", isDashed: true });
  draw(document.getElementById("plot"), {
    x: curves.epsilon,
    lines: positive,
    marks,
    log: { x: true, y: true },
    labels: { x: "epsilon of a report", y: "" },
    onPoint: (place) => read(place, lines),
  });
  legend(lines);
  table(lines);
  read(null, lines);
}

function legend(lines) {
  const list = document.getElementById("legend");
  list.hidden = false;
  list.replaceChildren(
    ...lines.map((one) => entry(`key k${one.colour}`, one.label)),
    entry("key line", "your epsilon"),
    ...(curves.epsilon_bound === null ? [] : [entry("key line dashed", "ε*")]),
  );
}

function entry(kind, text) {
  const item = document.createElement("li");
  const key = document.createElement("span");
  key.className = kind;
  item.append(key, ` ${text}`);
  return item;
}

function read(place, lines) {
  let at = place;
  if (at === null || at === undefined) {
    at = curves.epsilon.reduce((best, one, number) => (Math.abs(Math.log(one / curves.asked)) < Math.abs(Math.log(curves.epsilon[best] / curves.asked)) ? number : best), 0);
  }
  const words = lines.filter((one) => one.values[at] !== null).map((one) => `${one.label} ${shown(one.values[at])}`);
  document.getElementById("readout").textContent = `At epsilon ${shown(curves.epsilon[at])}: ${words.join(", ")}.`;
}

function table(lines) {
  const whole = document.createElement("table");
  const caption = whole.createCaption();
  caption.textContent = "The lines above in numbers.";
  const head = whole.createTHead().insertRow();
  for (const text of ["Epsilon", ...lines.map((one) => one.label)]) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.className = "number";
    cell.textContent = text;
    head.append(cell);
  }
  const body = whole.createTBody();
  curves.epsilon.forEach((epsilon, place) => {
    const row = body.insertRow();
    const first = document.createElement("th");
    first.scope = "row";
    first.className = "number";
    first.textContent = shown(epsilon);
    row.append(first);
    for (const one of lines) {
      const cell = row.insertCell();
      cell.className = "number";
      cell.textContent = shown(one.values[place]);
    }
  });
  document.querySelector("#point-table .table-box").replaceChildren(whole);
}

if (form) {
  setUp();
  const first = document.getElementById("first");
  if (first) {
    curves = JSON.parse(first.textContent);
    document.getElementById("views").hidden = false;
    for (const name of ["view", "estimator"]) document.getElementById(name).addEventListener("change", drawn);
    drawn();
  }
}
