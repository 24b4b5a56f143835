// Keeps the Live page new: listens to the stream, then asks for the changed part; can be paused.
import { drawAll } from "/static/chart.js";
import { readyCopies } from "/static/copy.js";

const box = document.getElementById("live");
const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
// Times are those of the reader's wall from the second page on; an address may name another zone.
if (!document.cookie.includes("rase_zone=")) {
  document.cookie = `rase_zone=${encodeURIComponent(ownZone)}; path=/; max-age=31536000; samesite=strict`;
  if (!box.dataset.chosen && ownZone !== box.dataset.zone) location.reload();
}
const words = document.getElementById("connection-words");
const dot = document.getElementById("dot");
const pause = document.getElementById("pause");
const spoken = document.getElementById("spoken");
const SPOKEN_MS = 20000;
const LONGEST_MS = 30000;
// The stream says that it lives every 15 seconds, also when no round comes.
const SILENT_MS = 45000;

let source = null;
let isPaused = false;
let wait = null;
let retryMs = 1000;
let spokenAt = 0;
let isFirst = true;
let lateAt = null;
let silentAt = null;

function say(text, kind) {
  words.textContent = text;
  dot.className = `live-dot ${kind}`;
  box.dataset.state = kind || "paused";
}

// Green means that rounds come in time, not only that the connection stands.
function sayLive() {
  if (document.getElementById("part").dataset.late === "1") say("Connected, but rounds are late", "late");
  else say("Live", "on");
}

// No event comes when rounds stop coming: the page itself asks again when the next one is overdue.
function watchLate() {
  clearTimeout(lateAt);
  const { again } = document.getElementById("part").dataset;
  // A timer holds at most 24 days.
  if (again !== "" && !isPaused) lateAt = setTimeout(refresh, Math.min(1000 * Number(again), 2 ** 31 - 1));
}

// A server that hangs does not end its stream.
function watchSilence() {
  clearTimeout(silentAt);
  if (!isPaused) silentAt = setTimeout(lost, SILENT_MS);
}

function listen() {
  clearTimeout(wait);
  source?.close();
  if (isPaused) return;
  source = new EventSource(box.dataset.events);
  source.onopen = () => {
    // What happened while the connection was lost is asked for at once.
    if (!isFirst) refresh();
    isFirst = false;
    retryMs = 1000;
    sayLive();
    watchSilence();
  };
  source.addEventListener("estimate", (event) => {
    watchSilence();
    later(event);
  });
  source.addEventListener("alive", watchSilence);
  source.onerror = () => {
    // A server that answers but refuses: the session may be over, which the page's answer shows.
    if (source.readyState === EventSource.CLOSED) refresh();
    lost();
  };
}

function lost() {
  clearTimeout(silentAt);
  source.close();
  say("Connection lost, trying again", "lost");
  wait = setTimeout(listen, retryMs);
  retryMs = Math.min(2 * retryMs, LONGEST_MS);
}

let due = null;
function later(event) {
  // A stream begins with the newest round, which may be on the page already.
  const { newest, quiet } = document.getElementById("part").dataset;
  if (String(JSON.parse(event.data).round) === newest) return;
  // A chart of very many rounds changes little with one more, and costs the server more.
  if (due === null) due = setTimeout(refresh, Number(quiet));
}

async function refresh() {
  clearTimeout(due);
  due = null;
  const address = new URL(location.href);
  address.searchParams.set("part", "1");
  let answer;
  try {
    answer = await fetch(address, { headers: { Accept: "text/html" } });
  } catch {
    watchLate();
    return;
  }
  if (answer.redirected) {
    ended();
    return;
  }
  if (isPaused) return;
  if (!answer.ok) {
    // Refused, as when too much was asked for: the page says that it is behind, and asks again.
    say(`Behind: the server refuses (${answer.status}), trying again`, "lost");
    due ??= setTimeout(refresh, LONGEST_MS);
    return;
  }
  show(new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("part"));
  if (source?.readyState === EventSource.OPEN) sayLive();
  watchLate();
}

function show(part) {
  if (!part) return;
  const old = document.getElementById("part");
  const open = [...old.querySelectorAll("details")].map((one) => one.open);
  const scrolled = old.querySelector(".tall")?.scrollTop ?? 0;
  const focused = old.contains(document.activeElement) ? pathOf(old, document.activeElement) : null;
  old.replaceWith(part);
  part.querySelectorAll("details").forEach((one, number) => (one.open = open[number] ?? false));
  const tall = part.querySelector(".tall");
  if (tall) tall.scrollTop = scrolled;
  if (focused) focused.reduce((node, place) => node?.children[place], part)?.focus({ preventScroll: true });
  drawAll(part);
  readyCopies(part);
  const now = Date.now();
  if (now - spokenAt >= SPOKEN_MS) {
    spokenAt = now;
    spoken.textContent = part.dataset.spoken;
  }
}

function pathOf(root, node) {
  const path = [];
  for (; node !== root; node = node.parentElement) path.unshift([...node.parentElement.children].indexOf(node));
  return path;
}

function ended() {
  isPaused = true;
  stop();
  say("", "lost");
  const again = words.appendChild(document.createElement("a"));
  again.href = `/login?next=${encodeURIComponent(location.pathname + location.search)}`;
  again.textContent = "Session ended: log in again";
  spoken.textContent = "Your session has ended. Reload the page to log in again.";
  pause.hidden = true;
}

function stop() {
  source?.close();
  for (const timer of [wait, lateAt, silentAt]) clearTimeout(timer);
}

pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  pause.textContent = isPaused ? "Resume" : "Pause";
  if (isPaused) {
    stop();
    say("Paused", "");
  } else {
    say("Connecting", "");
    refresh();
    listen();
  }
});

document.getElementById("connection").hidden = false;
document.getElementById("reload").hidden = true;
pause.hidden = false;
listen();
watchLate();
// A browser keeps six connections to a server: pages that nobody looks at give theirs back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return stop();
  watchLate();
  listen();
});
// The browser cuts the stream when the page is left; that is no lost connection.
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => event.persisted && listen());
