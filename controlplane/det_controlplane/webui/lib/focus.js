// Keep the focus near its place when the focused element moves or disappears.

/** What has the focus, and what that lies in. @type {HTMLElement[]} */
let focused = [];
/** What had it before a message took it. @type {HTMLElement | null} */
let before = null;
/** Whether Tab was pressed, and nothing got the focus since: it has left the page. */
let leaves = false;

/** Give the focus back where what had it is moved or taken away: keys and screen readers would begin at the top again. @param {Node} root */
export function keepFocus(root) {
  addEventListener("pointerdown", () => void (focused = []), { capture: true });
  addEventListener("keydown", (event) => void (leaves = event.key === "Tab"), { capture: true });
  document.addEventListener("focusin", (event) => {
    const at = /** @type {HTMLElement} */ (event.target);
    leaves = false;
    if (!at.closest(".toasts")) before = at;
    focused = [];
    for (let part = at; part; part = /** @type {HTMLElement} */ (part.parentElement)) focused.push(part);
  });
  new MutationObserver(() => {
    if (leaves || !focused.length || document.activeElement !== document.body) return;
    const [at] = focused;
    const wasMessage = !at.isConnected && focused.some((part) => part.matches(".toasts"));
    // Near it: the table of a row, or the heading of the page.
    const near = focused.filter((part) => part.isConnected && part.matches("a, button, input, select, textarea, [tabindex]:not(main)"));
    for (const part of [wasMessage ? before : null, ...near, document.querySelector("main h1")]) {
      /** @type {any} */ (part)?.focus({ preventScroll: true });
      if (document.activeElement !== document.body) return;
    }
  }).observe(root, { childList: true, subtree: true });
}
