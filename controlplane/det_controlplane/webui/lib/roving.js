// Many parts of one picture as one stop of the Tab key: arrow keys go from part to part.
import { useState } from "./view.js";

/** @type {Record<string, (at: number, count: number) => number>} */
const STEPS = {
  ArrowDown: (at, count) => Math.min(at + 1, count - 1),
  ArrowRight: (at, count) => Math.min(at + 1, count - 1),
  ArrowUp: (at) => Math.max(at - 1, 0),
  ArrowLeft: (at) => Math.max(at - 1, 0),
  PageDown: (at, count) => Math.min(at + 10, count - 1),
  PageUp: (at) => Math.max(at - 10, 0),
  Home: () => 0,
  End: (_, count) => count - 1,
};

/** Give what the parts and the picture around them need. @param {number} count of parts */
export function useRoving(count) {
  const [chosen, setAt] = useState(0);
  const at = Math.min(chosen, Math.max(count - 1, 0));
  /** @param {number} i */
  const part = (i) => ({ tabindex: i === at ? 0 : -1, "data-part": i, onFocus: () => setAt(i) });
  /** @param {KeyboardEvent & { currentTarget: any }} e */
  const onKeyDown = (e) => {
    const step = STEPS[e.key];
    if (!step || e.metaKey || e.ctrlKey || e.altKey) return;
    e.preventDefault();
    e.currentTarget.querySelector(`[data-part="${step(at, count)}"]`)?.focus();
  };
  return { part, onKeyDown };
}
