// The visible range of a chart, chosen by dragging, the wheel, two fingers or keys.

/** @typedef {{ from: number, to: number }} Range */

const STEP = 1.25;
const REST_MS = 250;

/** @param {any} plot @returns {Range} all that there is */
function whole(plot) {
  const xs = plot.data[0];
  return { from: xs[0] ?? 0, to: xs[xs.length - 1] ?? 0 };
}

/** @param {any} plot @param {Range} asked */
function show(plot, { from, to }) {
  const all = whole(plot);
  const width = Math.min(to - from, all.to - all.from);
  const begin = Math.min(Math.max(from, all.from), all.to - width);
  plot.setScale("x", { min: begin, max: begin + width });
}

/** @param {any} plot @param {number} factor @param {number} [at] of 0 to 1 */
function zoom(plot, factor, at = 0.5) {
  const { min, max } = plot.scales.x;
  const middle = min + (max - min) * at;
  show(plot, { from: middle - (middle - min) * factor, to: middle + (max - middle) * factor });
}

/** @param {any} plot @param {number} share of what is shown */
function move(plot, share) {
  const { min, max } = plot.scales.x;
  const by = (max - min) * share;
  show(plot, { from: min + by, to: max + by });
}

/** @type {Record<string, (plot: any) => void>} */
const KEYS = {
  "+": (plot) => zoom(plot, 1 / STEP),
  "=": (plot) => zoom(plot, 1 / STEP),
  "-": (plot) => zoom(plot, STEP),
  ArrowLeft: (plot) => move(plot, -0.1),
  ArrowRight: (plot) => move(plot, 0.1),
  0: (plot) => show(plot, whole(plot)),
};

/**
 * Let a chart be steered; tell the part that is shown once it rests, null for all of it. Returns what ends it.
 *
 * The wheel alone scrolls the page, as everywhere: with Ctrl (or two fingers) it zooms, with Shift or sideways it moves.
 * @param {any} plot @param {(range: Range | null) => void} onRange
 */
export function steer(plot, onRange) {
  let frame = 0;
  let timer = 0;
  let told = "";
  // A new chart shows its whole range.
  onRange(null);
  /** @param {() => void} act once a frame: mice tell more than a screen shows */
  const soon = (act) => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(act);
  };
  /** @param {WheelEvent} e */
  const onWheel = (e) => {
    const sideways = e.shiftKey ? e.deltaX || e.deltaY : Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : 0;
    if (!e.ctrlKey && !e.metaKey && !sideways) return;
    e.preventDefault();
    const box = plot.over.getBoundingClientRect();
    const at = (e.clientX - box.left) / box.width;
    soon(() => (sideways && !e.ctrlKey ? move(plot, sideways / box.width) : zoom(plot, e.deltaY < 0 ? 1 / STEP : STEP, at)));
  };
  /** @param {KeyboardEvent} e */
  const onKey = (e) => {
    const act = KEYS[e.key];
    if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    act(plot);
  };
  const onScale = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const { min, max } = plot.scales.x;
      const all = whole(plot);
      const now = min > all.from || max < all.to ? `${min} ${max}` : "";
      if (now !== told) onRange(now ? { from: min, to: max } : null);
      told = now;
    }, REST_MS);
  };
  (plot.hooks.setScale ??= []).push((/** @type {any} */ _, /** @type {string} */ name) => name === "x" && onScale());
  const element = plot.root.parentElement;
  element.addEventListener("wheel", onWheel, { passive: false });
  element.addEventListener("keydown", onKey);
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    element.removeEventListener("wheel", onWheel);
    element.removeEventListener("keydown", onKey);
  };
}
