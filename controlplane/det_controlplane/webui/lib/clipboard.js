// Text for the clipboard, also where browsers give pages none: on addresses without HTTPS.

/** Copy a text. @param {string} text */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const area = document.createElement("textarea");
  area.className = "hidden-visually";
  area.value = text;
  // Elements behind an open dialog cannot get the focus.
  (before?.closest("dialog") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  before?.focus();
  if (!done) throw new Error("The browser blocked access to the clipboard.");
}
