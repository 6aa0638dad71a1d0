// What was typed and not saved: pages ask before it is lost.
import { useEffect, useRef } from "./view.js";

/** @type {Set<object>} */
const holders = new Set();

/** Hold the page while something on it is not saved; what is returned lets it go at once, or holds it again. @param {boolean} changed */
export function useUnsaved(changed) {
  const own = useRef({}).current;
  const release = () => void holders.delete(own);
  const hold = () => void (changed && holders.add(own));
  useEffect(() => (changed ? hold() : release()), [changed]);
  useEffect(() => release, []);
  return { release, hold };
}

/** Ask, where something would be lost, whether it may be. */
export function mayLeave() {
  if (!holders.size) return true;
  if (!confirm("What you changed here is not saved. Leave all the same?")) return false;
  holders.clear();
  return true;
}

addEventListener("beforeunload", (event) => {
  if (holders.size) event.preventDefault();
});
