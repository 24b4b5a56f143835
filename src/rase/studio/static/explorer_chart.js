// A chart of lines over numbers, drawn by uPlot, with upright marks, a legend and a readout.
//
// draw(place, {x, lines, marks, log, labels}) draws or redraws. A line has a label, values (null
// for nothing) and a colour from 1 to 6; a mark has x and label. Colours come from the style sheet,
// so both themes work; dashes tell lines apart without colour.

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [14, 4]];
const charts = new Map();

export function draw(place, wanted) {
  charts.get(place)?.plot.destroy();
  place.hidden = !wanted.x.length;
  if (!window.uPlot || place.hidden) return;
  const plot = new window.uPlot(options(place, wanted), [wanted.x, ...wanted.lines.map((one) => one.values)], place);
  if (!charts.has(place)) {
    new ResizeObserver(() => {
      const now = charts.get(place)?.plot;
      if (now && place.clientWidth && (now.width !== place.clientWidth || now.height !== place.clientHeight)) {
        now.setSize({ width: place.clientWidth, height: place.clientHeight });
      }
    }).observe(place);
  }
  charts.set(place, { plot, wanted });
}

// The system may change its colours while the page is open.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [place, { wanted }] of charts) draw(place, wanted);
});

export function shown(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(2).replace("-", "−");
  return Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }).replace("-", "−");
}

function options(place, wanted) {
  const colour = colours(place);
  const ink = colour("--ink-soft");
  const grid = { stroke: colour("--line"), width: 1 };
  // Of a logarithmic axis only whole powers of ten get a line across.
  const tens = (plot, values) => values.map((one) => (Number.isInteger(Math.log10(one)) ? one : null));
  const axis = (label) => ({ stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif", label, labelFont: "12px system-ui, sans-serif", labelSize: 20, size: label ? 44 : 36 });
  const scale = (isLog) => (isLog ? { time: false, distr: 3 } : { time: false });
  const y = axis(wanted.labels.y);
  const lines = (isLog) => (isLog ? { grid: { ...grid, filter: tens } } : {});
  return {
    width: place.clientWidth,
    height: place.clientHeight,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: scale(wanted.log.x), y: wanted.range ? { ...scale(wanted.log.y), range: wanted.range } : scale(wanted.log.y) },
    axes: [
      { ...axis(wanted.labels.x), ...lines(wanted.log.x), values: (plot, ticks) => ticks.map((one) => (one === null ? "" : shown(one))) },
      { ...y, ...lines(wanted.log.y), size: 60, values: (plot, ticks) => ticks.map((one) => (one === null ? "" : shown(one))) },
    ],
    series: [
      {},
      ...wanted.lines.map((one, number) => ({
        label: one.label,
        stroke: colour(`--series-${one.colour}`),
        width: one.isWide ? 3 : 2,
        dash: DASHES[number % DASHES.length],
        spanGaps: true,
        ...(one.isDots ? { paths: () => null, points: { show: true, size: 7, fill: colour(`--series-${one.colour}`) } } : { points: { show: false } }),
      })),
    ],
    hooks: {
      draw: [(plot) => wanted.marks.forEach((mark) => upright(plot, mark, mark.isDashed ? ink : colour("--ink")))],
      setCursor: [(plot) => wanted.onPoint?.(plot.cursor.idx)],
    },
  };
}

function upright(plot, mark, stroke) {
  const { ctx, bbox } = plot;
  if (mark.x === null || mark.x < plot.scales.x.min || mark.x > plot.scales.x.max) return;
  const at = Math.round(plot.valToPos(mark.x, "x", true));
  const ratio = window.devicePixelRatio || 1;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = stroke;
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash(mark.isDashed ? [5 * ratio, 4 * ratio] : []);
  ctx.beginPath();
  ctx.moveTo(at, bbox.top);
  ctx.lineTo(at, bbox.top + bbox.height);
  ctx.stroke();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  const isRight = at > bbox.left + bbox.width * 0.85;
  ctx.textAlign = isRight ? "right" : "left";
  ctx.fillText(mark.label, at + (isRight ? -6 : 6) * ratio, bbox.top + (mark.isDashed ? 28 : 14) * ratio);
  ctx.restore();
}

function colours(place) {
  const probe = document.createElement("span");
  probe.hidden = true;
  place.append(probe);
  const found = new Map();
  return (name) => {
    if (!found.has(name)) {
      // The probe resolves light-dark(), which a canvas does not know.
      place.append(probe);
      probe.style.color = `var(${name})`;
      found.set(name, getComputedStyle(probe).color);
      probe.remove();
    }
    return found.get(name);
  };
}
