// Asks for the changing part of a page again and again; says so when nothing answers.
const box = document.getElementById("fresh");
const againMs = 1000 * Number(box.dataset.again);
let timer = null;

async function refresh() {
  clearTimeout(timer);
  const address = new URL(location.href);
  address.searchParams.set("part", "1");
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    // Whoever is no longer logged in is led to the login.
    if (answer.redirected) return location.reload();
    if (!answer.ok) throw new Error(String(answer.status));
    const part = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("part");
    const focused = document.activeElement?.getAttribute?.("href");
    document.getElementById("part").replaceWith(part);
    if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    document.getElementById("stale")?.remove();
  } catch {
    if (!document.getElementById("stale")) {
      const words = document.createElement("p");
      words.id = "stale";
      words.className = "notice bad";
      words.setAttribute("role", "alert");
      words.textContent = "The fusion centre does not answer. What stands here is old.";
      box.before(words);
    }
  }
  timer = setTimeout(refresh, againMs);
}

document.getElementById("reload").hidden = true;
timer = setTimeout(refresh, againMs);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
