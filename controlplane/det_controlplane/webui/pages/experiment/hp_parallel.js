// All hyperparameters at once: a line for each trial, over an axis for each of them. A part of an axis narrows the trials.
import { metric } from "../../lib/format.js";
import { html, useRef } from "../../lib/view.js";
import { colourOf } from "../../parts/curve_look.js";
import { Label, LETTER, LINE, linesOf } from "./hp_axis.js";

/** @typedef {import("./hp_axis.js").Axis} Axis */
/** @typedef {import("./hp_axis.js").Row} Row */
/** @typedef {Record<string, [number, number]>} Brushes the chosen parts of axes, of 0 to 1 */

const WIDTH = 1000;
const HEIGHT = 320;
const LEFT = 60;
const RIGHT = 75; // also for the numbers of the last axis
const TOP = 30;
const BOTTOM = 24;
const STEP = 0.1;
// A shorter drag is a click.
const LEAST = 0.02;

const y = (/** @type {number} */ p) => HEIGHT - BOTTOM - p * (HEIGHT - TOP - BOTTOM);

/** @param {Row} row @param {Axis} axis @param {Axis} goal */
const placeOf = (row, axis, goal) => axis.at(axis === goal ? row.value : row.hp[axis.name]);

/** Tell whether a trial lies in every chosen part. @param {Row} row @param {Axis[]} axes @param {Axis} goal @param {Brushes} brushes */
export function fits(row, axes, goal, brushes) {
  return axes.every((axis) => {
    const part = brushes[axis.name];
    const at = placeOf(row, axis, goal);
    return !part || (at >= part[0] - 1e-9 && at <= part[1] + 1e-9);
  });
}

/** @param {{ axes: Axis[], rows: Row[], smaller: boolean, brushes: Brushes, setBrushes: (brushes: Brushes) => void }} props */
export function Parallel({ axes, rows, smaller, brushes, setBrushes }) {
  const goal = axes[axes.length - 1];
  const x = (/** @type {number} */ i) => LEFT + ((WIDTH - LEFT - RIGHT) * i) / (axes.length - 1);
  const between = x(1) - x(0);
  const names = axes.map((a, i) => linesOf(titleOf(a), Math.floor((i % (axes.length - 1) ? between : Math.min(between, 2 * LEFT)) / LETTER) - 1));
  const above = LINE * (Math.max(...names.map((lines) => lines.length)) - 1);
  const drawn = [...rows].sort((a, b) => (smaller ? b.value - a.value : a.value - b.value));
  return html`
    <p class="soft small">Drag along an axis to filter trials. With the keyboard, arrow keys narrow an axis and Escape resets it.</p>
    <div class="table-scroll">
      <svg class="parallel" viewBox=${`0 ${-above} ${WIDTH} ${HEIGHT + above}`} role="group" aria-label=${`${rows.length} trials over ${axes.map((a) => a.name).join(", ")}`}>
        ${drawn.map((r, n) => {
          const points = axes.map((a, i) => `${x(i).toFixed(1)},${y(placeOf(r, a, goal)).toFixed(1)}`);
          const within = fits(r, axes, goal, brushes);
          return html`<polyline class=${within ? "" : "out"} style=${{ "--curve": `var(${colourOf(r.id)})` }} points=${points.join(" ")} opacity=${within ? 0.12 + (0.8 * (n + 1)) / drawn.length : 0.08}><title>Trial ${r.id}: ${metric(r.value)}</title></polyline>`;
        })}
        ${axes.map((a, i) => html`<${AxisLine} key=${a.name} axis=${a} x=${x(i)} names=${names[i]} letters=${Math.floor((between - 16) / LETTER)} above=${above} part=${brushes[a.name]} onPart=${(/** @type {[number, number] | null} */ part) => setBrushes(changed(brushes, a.name, part))} />`)}
      </svg>
    </div>
  `;
}

/** @param {Brushes} brushes @param {string} name @param {[number, number] | null} part */
function changed(brushes, name, part) {
  const { [name]: _, ...rest } = brushes;
  return part ? { ...rest, [name]: part } : rest;
}

/** @param {Axis} axis */
const titleOf = (axis) => axis.name + (axis.log ? " (log)" : "");

/** @param {{ axis: Axis, x: number, names: string[], letters: number, above: number, part?: [number, number], onPart: (part: [number, number] | null) => void }} props */
function AxisLine({ axis, x, names, letters, above, part, onPart }) {
  const from = useRef(/** @type {number | null} */ (null));
  /** @param {PointerEvent} e */
  const at = (e) => {
    const svg = /** @type {SVGElement} */ (e.currentTarget).ownerSVGElement;
    const box = /** @type {SVGSVGElement} */ (svg).getBoundingClientRect();
    const within = ((e.clientY - box.top) / box.height) * (HEIGHT + above) - above;
    return Math.min(1, Math.max(0, (HEIGHT - BOTTOM - within) / (HEIGHT - TOP - BOTTOM)));
  };
  /** @param {PointerEvent} e */
  const onDown = (e) => {
    /** @type {Element} */ (e.currentTarget).setPointerCapture(e.pointerId);
    from.current = at(e);
  };
  /** @param {PointerEvent} e */
  const onMove = (e) => {
    if (from.current === null) return;
    const [low, high] = [from.current, at(e)].sort((a, b) => a - b);
    if (high - low >= LEAST) onPart([low, high]);
  };
  /** @param {PointerEvent} e */
  const onUp = (e) => {
    if (from.current !== null && Math.abs(at(e) - from.current) < LEAST) onPart(null);
    from.current = null;
  };
  /** @param {KeyboardEvent} e */
  const onKey = (e) => {
    const [low, high] = part ?? [0, 1];
    const next = { ArrowUp: [Math.min(low + STEP, high), high], ArrowDown: [low, Math.max(high - STEP, low)], Escape: null }[e.key];
    if (next === undefined) return;
    e.preventDefault();
    onPart(/** @type {[number, number] | null} */ (next));
  };
  const [low, high] = part ?? [0, 1];
  const told = part ? `from ${axis.back(low)} to ${axis.back(high)}` : "full range";
  return html`
    <g class="brushed" role="slider" tabindex="0" aria-label=${axis.name} aria-orientation="vertical" aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(low * 100)} aria-valuetext=${told}
      onPointerDown=${onDown} onPointerMove=${onMove} onPointerUp=${onUp} onKeyDown=${onKey}>
      <line x1=${x} x2=${x} y1=${y(0)} y2=${y(1)} class="axis" />
      <text text-anchor="middle" class="axis-name">${names.map((name, i) => html`<tspan x=${x} y=${TOP - 12 - LINE * (names.length - 1 - i)}>${name}</tspan>`)}<title>${axis.name}</title></text>
      ${axis.ticks.map(([p, text]) => html`<${Label} text=${text} letters=${letters} x=${x + 8} y=${y(p) + 4} class="tick" />`)}
      ${part && html`<rect class="part" x=${x - 7} width="14" y=${y(high)} height=${Math.max(2, y(low) - y(high))} rx="3" />`}
      <rect class="grip" x=${x - 14} width="28" y=${y(1) - 6} height=${y(0) - y(1) + 12} rx="4" />
    </g>
  `;
}
