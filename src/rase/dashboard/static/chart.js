// Draws the table of every <figure data-chart> with uPlot; without scripts the table is there.
//
// The head of the table says what each column is: data-role="x" (one), "line" (any number, each
// with data-color="1" to "4"), "low" and "high" (a band behind the line before them), "note"
// (shown under the pointer only), "bars" (drawn below in .plot.bars, with a dashed line at
// data-least). Cells carry the exact number in data-v; an empty one is a gap.
// The figure has data-x="time" (RFC 3339) or "number", data-unit, data-log="x y", and
// data-mark="1.5" with data-mark-label="ε*" for an upright line. Rows with data-withheld above 0
// get a small mark at the bottom; data-marks, a list of {at, label}, are upright lines, too. data-zone is the zone of the times. With data-zoom, an address,
// a time can be chosen by dragging; with data-open a click opens the round of a row's data-round.
// drawAll(root) draws what was added later.

const plots = new WeakMap();
let count = 0;

export function drawAll(root = document) {
  for (const figure of root.querySelectorAll("figure[data-chart]")) draw(figure);
}

export function draw(figure) {
  const place = figure.querySelector(".plot");
  const table = figure.querySelector("table");
  if (!place || !table || !window.uPlot) return;
  for (const plot of plots.get(figure) ?? []) plot.destroy();
  plots.delete(figure);
  const found = read(figure, table);
  place.hidden = !found.x.length;
  if (place.hidden) return;
  const key = `chart-${(count += 1)}`;
  const drawn = [new window.uPlot(options(figure, place, found, key), found.data, place)];
  const below = figure.querySelector(".plot.bars");
  if (below && found.bars) drawn.push(new window.uPlot(barOptions(figure, below, found, key), [found.x, found.bars], below));
  plots.set(figure, drawn);
  touch(figure, drawn[0], found);
  if (!figure.dataset.watched) {
    figure.dataset.watched = "1";
    new ResizeObserver(() => resize(figure)).observe(place);
  }
}

function read(figure, table) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows];
  const isTime = figure.dataset.x === "time";
  const column = (place) => rows.map((row) => numeric(row.cells[place].dataset.v, isTime && heads[place].dataset.role === "x"));
  const xPlace = heads.findIndex((head) => head.dataset.role === "x");
  const x = column(xPlace);
  const series = [];
  const bands = [];
  let color = 0;
  heads.forEach((head, place) => {
    const role = head.dataset.role;
    if (!["line", "low", "high"].includes(role)) return;
    if (role === "line") color = Number(head.dataset.color ?? color + 1);
    series.push({ role, color, label: head.textContent.trim(), values: column(place) });
    const last = series.length;
    if (role === "high" && series[last - 2]?.role === "low") bands.push([last, last - 1, color]);
  });
  const barPlace = heads.findIndex((head) => head.dataset.role === "bars");
  const counted = barPlace < 0 ? null : column(barPlace);
  return { x, series, bands, rows, heads, isTime, bars: counted, data: [x, ...series.map((one) => one.values)] };
}

function numeric(text, isTime) {
  if (text === undefined || text === "") return null;
  return isTime ? Date.parse(text) / 1000 : Number(text);
}

function options(figure, place, found, key) {
  const style = getComputedStyle(figure);
  const token = (name) => resolved(figure, style.getPropertyValue(name));
  const ink = token("--ink-soft");
  const line = token("--line");
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const log = (figure.dataset.log ?? "").split(" ");
  const isSparse = found.x.length < 60;
  const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  return {
    width: place.clientWidth,
    height: place.clientHeight,
    legend: { show: false },
    padding: [figure.dataset.unit ? 30 : 10, 24, 0, null],
    cursor: { y: false, drag: { x: "zoom" in figure.dataset, y: false, setScale: false }, points: { size: 7 }, sync: { key } },
    tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), zoneOf(figure)),
    scales: {
      x: { time: found.isTime, distr: log.includes("x") ? 3 : 1, ...(log.includes("x") ? {} : { range: (_, low, high) => shownRange(figure, found, low, high) }) },
      y: { distr: log.includes("y") ? 3 : 1, range: log.includes("y") ? undefined : (_, low, high) => padded(low, high) },
    },
    axes: [
      { ...axis, space: 70, size: 32, ...(found.isTime ? { values: timesIn(zoneOf(figure)) } : {}) },
      { ...axis, size: room, values: (self, splits) => shortNumbers(splits) },
    ],
    series: [
      {},
      ...found.series.map((one) => ({
        label: one.label,
        stroke: one.role === "line" ? token(`--series-${one.color}`) : "transparent",
        width: one.role === "line" ? 2 : 0,
        points: { show: one.role === "line" && isSparse, size: 5, fill: token(`--series-${one.color}`) },
        spanGaps: false,
      })),
    ],
    bands: found.bands.map(([high, low, color]) => ({ series: [high, low], fill: faded(token(`--series-${color}`)) })),
    hooks: {
      setCursor: [(self) => showPlace(figure, found, self.cursor.idx)],
      drawAxes: [(self) => marks(self, figure, found, token)],
      draw: [(self) => lone(self, found, token)],
      setSelect: [(self) => zoom(self, figure)],
    },
  };
}

// As wide as its numbers; both charts of a figure keep the wider one, so that their times line up.
function room(self, values) {
  return Math.max(60, 16 + 8 * Math.max(3, ...(values ?? []).map((value) => value.length)));
}

function barOptions(figure, place, found, key) {
  const shared = options(figure, place, found, key);
  const token = (name) => resolved(figure, getComputedStyle(figure).getPropertyValue(name));
  const least = Number(figure.dataset.least ?? 0);
  return {
    ...shared,
    width: place.clientWidth,
    height: place.clientHeight,
    padding: [6, 24, 8, null],
    scales: { x: shared.scales.x, y: { range: (_, low, high) => [0, 1.15 * Math.max(high ?? 0, least, 1)] } },
    axes: [{ ...shared.axes[0], show: false }, { ...shared.axes[1], space: 28, values: (self, splits) => shortNumbers(splits) }],
    series: [{}, { stroke: "transparent", fill: faded(token("--series-3"), 0.5), width: 0, points: { show: false }, paths: window.uPlot.paths.bars({ size: [0.9, 24] }) }],
    bands: [],
    hooks: { draw: [(self) => atLeast(self, least, token)], setSelect: shared.hooks.setSelect },
  };
}

function atLeast(self, least, token) {
  if (!least) return;
  const { ctx, bbox } = self;
  const y = self.valToPos(least, "y", true);
  ctx.save();
  ctx.strokeStyle = token("--ink-soft");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

// A dragged time becomes an address, so that it can be sent, kept and gone back from.
function zoom(self, figure) {
  if (!figure.dataset.zoom || self.select.width < 6) return;
  const ends = [self.select.left, self.select.left + self.select.width].map((left) => self.posToVal(left, "x"));
  show(figure, Math.floor(ends[0] / 60) * 60, Math.ceil(ends[1] / 60) * 60);
}

function show(figure, from, to) {
  const address = new URL(figure.dataset.zoom, location.href);
  address.searchParams.set("from", local(from, zoneOf(figure)));
  address.searchParams.set("to", local(to, zoneOf(figure)));
  location.assign(address);
}

// A click opens a round; a point that stands for several is looked into.
function touch(figure, plot, found) {
  if (!figure.dataset.open) return;
  plot.over.addEventListener("click", () => {
    const row = found.rows[plot.cursor.idx ?? -1];
    if (!row || plot.select.width >= 6) return;
    const rounds = Number(row.dataset.rounds ?? 1);
    if (rounds > 1) {
      const next = found.x[plot.cursor.idx + 1] ?? found.x[plot.cursor.idx] + (found.x[1] - found.x[0] || 3600);
      return show(figure, found.x[plot.cursor.idx], next);
    }
    const address = new URL(figure.dataset.open, location.href);
    address.searchParams.set("number", row.dataset.round);
    location.assign(address);
  });
}

const zoneOf = (figure) => figure.dataset.zone || "UTC";

// The time on the wall, as a field for date and time has it.
function local(seconds, zone) {
  const parts = Object.fromEntries(new Intl.DateTimeFormat("en-CA", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" }).formatToParts(new Date(seconds * 1000)).map((part) => [part.type, part.value]));
  return `${parts.year}-${parts.month}-${parts.day}T${parts.hour}:${parts.minute}`;
}

const FORMS = {
  clock: { hour: "2-digit", minute: "2-digit" },
  second: { hour: "2-digit", minute: "2-digit", second: "2-digit" },
  day: { day: "numeric", month: "short" },
};
// Made when first used: making one takes as long as laying a page out.
const forms = {};
const written = (name, zone, date) => (forms[name + zone] ??= new Intl.DateTimeFormat("en-GB", { timeZone: zone, ...FORMS[name] })).format(date);

function timesIn(zone) {
  return (self, splits, axis, space, step) =>
    splits.map((value) => {
      const date = new Date(value * 1000);
      const isMidnight = written("second", zone, date) === "00:00:00";
      return written(step >= 86400 || isMidnight ? "day" : step < 60 ? "second" : "clock", zone, date);
    });
}

function padded(low, high) {
  if (low === null || high === null) return [0, 1];
  const room = high - low || Math.abs(high) || 1;
  return [low - 0.06 * room, high + 0.06 * room];
}

// The time that was asked for, not only what there is of it; around a single point some room.
function shownRange(figure, found, low, high) {
  const { from, to } = figure.dataset;
  if (from && to) return [Number(from), Number(to)];
  if (low === null) return [0, 1];
  // Of a single point uPlot makes a span of its own, of years.
  if (found.data[0].length === 1) low = high = found.data[0][0];
  return low === high ? [low - (found.isTime ? 3600 : 1), high + (found.isTime ? 3600 : 1)] : [low, high];
}

function shortNumbers(values) {
  const largest = Math.max(0, ...values.map((value) => Math.abs(value ?? 0)));
  const form = largest >= 1e6 ? { notation: "compact", maximumFractionDigits: 2 } : { maximumSignificantDigits: largest < 1e-3 ? 2 : 6 };
  return values.map((value) => (value === null ? "" : value.toLocaleString("en-US", form).replace("-", "−")));
}

// A point without neighbours has no line and no band: its interval is a line of its own.
function lone(self, found, token) {
  const { ctx } = self;
  ctx.save();
  ctx.lineWidth = 3 * devicePixelRatio;
  for (const [high, low, color] of found.bands) {
    ctx.strokeStyle = faded(token(`--series-${color}`), 0.4);
    const [tops, ends] = [found.data[high], found.data[low]];
    tops.forEach((top, place) => {
      if (top === null || (tops[place - 1] ?? null) !== null || (tops[place + 1] ?? null) !== null) return;
      const x = self.valToPos(found.x[place], "x", true);
      ctx.beginPath();
      ctx.moveTo(x, self.valToPos(top, "y", true));
      ctx.lineTo(x, self.valToPos(ends[place], "y", true));
      ctx.stroke();
      ctx.fillStyle = token(`--series-${color}`);
      ctx.beginPath();
      ctx.arc(x, self.valToPos(found.data[low - 1][place], "y", true), 3 * devicePixelRatio, 0, 2 * Math.PI);
      ctx.fill();
    });
  }
  ctx.restore();
}

function marks(self, figure, found, token) {
  const { ctx, bbox } = self;
  ctx.save();
  if (figure.dataset.unit) {
    ctx.fillStyle = token("--ink-soft");
    ctx.font = `${12 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
    ctx.textAlign = "left";
    ctx.fillText(figure.dataset.unit, 4 * devicePixelRatio, bbox.top - 16 * devicePixelRatio);
  }
  ctx.fillStyle = token("--warn");
  ctx.globalAlpha = 0.6;
  found.rows.forEach((row, place) => {
    if (Number(row.dataset.withheld ?? 0) === 0) return;
    const x = self.valToPos(found.x[place], "x", true);
    const width = 3 * devicePixelRatio;
    if (x >= bbox.left && x <= bbox.left + bbox.width) ctx.fillRect(x - width / 2, bbox.top + bbox.height - 10 * devicePixelRatio, width, 10 * devicePixelRatio);
  });
  ctx.globalAlpha = 1;
  ctx.strokeStyle = ctx.fillStyle = token("--ink-soft");
  ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.font = `${12 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
  for (const { at, label } of upright(figure)) {
    const x = self.valToPos(at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    // Near the right end the words stand before their line.
    const isFar = x + ctx.measureText(label).width + 8 * devicePixelRatio > bbox.left + bbox.width;
    ctx.textAlign = isFar ? "right" : "left";
    ctx.fillText(label, x + (isFar ? -4 : 4) * devicePixelRatio, bbox.top + 12 * devicePixelRatio);
  }
  ctx.restore();
}

function upright(figure) {
  const { mark, markLabel, marks: several } = figure.dataset;
  return [...(mark ? [{ at: Number(mark), label: markLabel ?? "" }] : []), ...JSON.parse(several || "[]")];
}

function showPlace(figure, found, place) {
  const readout = figure.querySelector(".readout");
  if (!readout) return;
  const row = place === null || place === undefined ? null : found.rows[place];
  readout.textContent = row
    ? [...row.cells].map((cell, column) => (cell.textContent.trim() === "–" ? "" : `${column ? found.heads[column].textContent.trim() + " " : ""}${cell.textContent.trim()}`)).filter(Boolean).join(" · ")
    : "";
}

function resize(figure) {
  const places = figure.querySelectorAll(".plot");
  (plots.get(figure) ?? []).forEach((plot, number) => {
    const { clientWidth: width, clientHeight: height } = places[number];
    if (width && width !== plot.width) plot.setSize({ width, height });
  });
}

// A colour token may be light-dark(…): only the browser can say what it is now.
function resolved(figure, text) {
  const probe = figure.appendChild(document.createElement("i"));
  probe.style.color = text;
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

function faded(color, alpha = 0.18) {
  const [r, g, b] = color.match(/[\d.]+/g);
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
// The page is painted first, its charts after: running uPlot takes longer than all the rest.
requestAnimationFrame(() =>
  setTimeout(() => {
    const script = document.createElement("script");
    script.src = "/static/vendor/uplot/uPlot.iife.min.js";
    script.onload = () => drawAll();
    document.head.append(script);
  }),
);
