// Copies what stands in the <pre> that a button names, and says so.
export function readyCopies(root = document) {
  for (const button of root.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        // Without permission the text is selected, to be copied by hand.
        getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
        button.textContent = "Selected: press Ctrl+C";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }
}

readyCopies();
