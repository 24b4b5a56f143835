// Keeps the page new while somebody looks at it. Without scripts there is the link "Reload".
const EVERY_MS = 5000;
const follow = document.getElementById("follow");
const dot = document.getElementById("dot");
const words = document.getElementById("follow-words");
let isOn = true;
let timer = null;
let seen = text(document);

function text(page) {
  return page.getElementById("state").outerHTML + page.getElementById("now").innerHTML;
}

function say(kind, what) {
  dot.className = `live-dot ${kind}`;
  if (words.textContent !== what) words.textContent = what;
}

async function refresh() {
  clearTimeout(timer);
  if (!isOn || document.hidden) return;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    // Whoever has ticked a box is about to send it; nothing moves below their hand.
    if (isOn && text(page) !== seen && !document.querySelector("#now :checked")) show(page);
    say("on", "Live");
  } catch {
    say("lost", "The agent does not answer");
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, EVERY_MS);
}

function show(page) {
  seen = text(page);
  const old = document.getElementById("now");
  const part = page.getElementById("now");
  const scrolled = [...old.querySelectorAll(".table-box")].map((box) => [box.scrollTop, box.scrollLeft]);
  const focused = old.contains(document.activeElement) ? pathOf(old, document.activeElement) : null;
  old.replaceWith(part);
  document.getElementById("state").replaceWith(page.getElementById("state"));
  [...part.querySelectorAll(".table-box")].forEach((box, place) => ([box.scrollTop, box.scrollLeft] = scrolled[place] ?? [0, 0]));
  if (focused) focused.reduce((node, place) => node?.children[place], part)?.focus({ preventScroll: true });
}

function pathOf(root, node) {
  const path = [];
  for (; node !== root; node = node.parentElement) path.unshift([...node.parentElement.children].indexOf(node));
  return path;
}

follow.addEventListener("click", () => {
  isOn = !isOn;
  follow.setAttribute("aria-pressed", String(isOn));
  say(isOn ? "on" : "", isOn ? "Live" : "Not updated");
  refresh();
});
document.addEventListener("visibilitychange", refresh);
document.getElementById("reload").hidden = true;
document.getElementById("following").hidden = false;
say("on", "Live");
timer = setTimeout(refresh, EVERY_MS);
