// Where values of a hyperparameter lie between the least and the most.
import { html } from "../../lib/view.js";
import { evenTicks, logTicks, tickLabel, tickLabels, valueLimits } from "../../parts/chart_scale.js";

/** @typedef {{ name: string, log: boolean, words: string[] | null, at: (value: any) => number, back: (place: number) => string, ticks: [number, string][], outside: number }} Axis positions of 0 to 1; `outside`: how many values lie beyond its ends */
/** @typedef {{ id: number, value: number, hp: Record<string, any> }} Row a trial with its metric */

// Approximate size of a letter in the pictures. Long names have several lines.
export const LETTER = 6.4;
export const LINE = 13;
const MOST_LINES = 6;

/** Break a name into lines, after a dot or a dash where possible. Only a very long name loses its beginning. @param {string} name @param {number} letters of a line @returns {string[]} */
export function linesOf(name, letters) {
  const lines = [""];
  for (const part of name.match(/[^._\-/ ]*[._\-/ ]?/g) ?? []) {
    if (lines[0] && lines[lines.length - 1].length + part.length > letters) lines.push("");
    lines[lines.length - 1] += part;
  }
  const every = lines.flatMap((line) => line.match(new RegExp(`.{1,${Math.max(letters, 4)}}`, "gu")) ?? []);
  return every.length > MOST_LINES ? [`…${every[every.length - MOST_LINES].slice(1)}`, ...every.slice(1 - MOST_LINES)] : every;
}

/** A text of several lines if it is long. @param {{ text: string, letters: number, x: number, y: number, [more: string]: any }} props */
export const Label = ({ text, letters, x, y, ...more }) => html`<text ...${more}>${linesOf(text, letters).map((line, i) => html`<tspan x=${x} y=${y + i * LINE}>${line}</tspan>`)}</text>`;

/** @param {any} hparams @param {string} name */
export function declared(hparams, name) {
  let at = hparams;
  for (const part of name.split(".")) at = at?.[part];
  return at;
}

/** @param {string} name @param {any[]} values @param {boolean} log @returns {Axis} */
export function axisOf(name, values, log) {
  // A few whole numbers, such as sizes of layers, are words: each has its own place.
  const numeric = values.every((v) => typeof v === "number" || v === undefined) && (new Set(values).size > 5 || values.some((v) => v !== undefined && !Number.isInteger(v)));
  if (!numeric) {
    const words = [...new Set(values.map((v) => JSON.stringify(v) ?? "–"))].sort((a, b) => Number(a) - Number(b) || a.localeCompare(b));
    const place = (/** @type {number} */ i) => (words.length === 1 ? 0.5 : i / (words.length - 1));
    const back = (/** @type {number} */ p) => words[Math.round(p * (words.length - 1))] ?? "";
    return { name, log: false, words, outside: 0, back, at: (v) => place(words.indexOf(JSON.stringify(v) ?? "–")), ticks: words.map((w, i) => [place(i), w.replaceAll('"', "")]) };
  }
  return numericAxis(name, log, valueLimits(values, { log, ignores: false }));
}

/** Return the axis of the metric of trials. Outliers that it ignores lie at its ends. @param {string} name @param {number[]} values @param {import("../../parts/chart_scale.js").Scale} scale @returns {Axis} */
export function goalAxis(name, values, scale) {
  const limits = valueLimits(values, scale);
  const axis = numericAxis(name, scale.log && limits !== null, limits ?? valueLimits(values, { ...scale, log: false }));
  // Logarithms and powers are not exact.
  const slack = 1e-9 * Math.max(...(limits ?? [0]).map(Math.abs));
  return { ...axis, outside: limits ? values.filter((v) => v < limits[0] - slack || v > limits[1] + slack).length : 0 };
}

/** @param {string} name @param {boolean} log @param {import("../../parts/chart_scale.js").Limits | null} limits @returns {Axis} */
function numericAxis(name, log, limits) {
  const bend = (/** @type {number} */ v) => (log ? Math.log10(v) : v);
  const [low, high] = (limits ?? [0, 1]).map(bend);
  // A value of 0 has no logarithm.
  const at = (/** @type {any} */ v) => (high === low ? 0.5 : Math.min(1, Math.max(0, (bend(v) - low) / (high - low) || 0)));
  const back = (/** @type {number} */ p) => tickLabel(Number((log ? 10 ** (low + p * (high - low)) : low + p * (high - low)).toPrecision(2)));
  const marks = log ? logTicks(10 ** low, 10 ** high).major : evenTicks(low, high);
  const labels = tickLabels(marks);
  const ticks = marks.map((v, i) => /** @type {[number, string]} */ ([at(v), labels[i]]));
  return { name, log, words: null, at, back, ticks, outside: 0 };
}
