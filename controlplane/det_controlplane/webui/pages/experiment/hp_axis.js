// Where values of a hyperparameter lie between the least and the most, and how much it explains.
import { metric } from "../../lib/format.js";

/** @typedef {{ name: string, log: boolean, words: string[] | null, at: (value: any) => number, back: (place: number) => string, ticks: [number, string][] }} Axis positions of 0 to 1 */
/** @typedef {{ id: number, value: number, hp: Record<string, any> }} Row a trial with its metric */

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
    return { name, log: false, words, back, at: (v) => place(words.indexOf(JSON.stringify(v) ?? "–")), ticks: words.map((w, i) => [place(i), w.replaceAll('"', "")]) };
  }
  const numbers = values.filter((v) => typeof v === "number");
  const bend = (/** @type {number} */ v) => (log ? Math.log(v) : v);
  const [low, high] = [bend(Math.min(...numbers)), bend(Math.max(...numbers))];
  const at = (/** @type {any} */ v) => (high === low ? 0.5 : (bend(v) - low) / (high - low));
  const back = (/** @type {number} */ p) => metric(Number((log ? Math.exp(low + p * (high - low)) : low + p * (high - low)).toPrecision(2)));
  const ticks = [0, 0.5, 1].map((p) => /** @type {[number, string]} */ ([p, back(p)]));
  return { name, log, words: null, at, back, ticks };
}

/** @param {number[]} values */
function ranks(values) {
  const order = values.map((v, i) => [v, i]).sort((a, b) => a[0] - b[0]);
  const found = Array(values.length).fill(0);
  for (let i = 0; i < order.length; ) {
    let j = i;
    while (j < order.length && order[j][0] === order[i][0]) j++;
    for (let k = i; k < j; k++) found[order[k][1]] = (i + j - 1) / 2;
    i = j;
  }
  return found;
}

/** How much of the order of trials an axis explains, of 0 to 1. @param {Axis} axis @param {any[]} rows */
export function importance(axis, rows) {
  const y = ranks(rows.map((r) => r.value));
  const mean = y.reduce((a, b) => a + b, 0) / y.length;
  const total = y.reduce((sum, v) => sum + (v - mean) ** 2, 0) || 1;
  if (!axis.words) {
    const x = ranks(rows.map((r) => axis.at(r.hp[axis.name])));
    const spread = x.reduce((sum, v) => sum + (v - mean) ** 2, 0) || 1;
    const together = x.reduce((sum, v, i) => sum + (v - mean) * (y[i] - mean), 0);
    return together ** 2 / (spread * total);
  }
  const groups = new Map();
  rows.forEach((r, i) => {
    const key = JSON.stringify(r.hp[axis.name]);
    groups.set(key, [...(groups.get(key) ?? []), y[i]]);
  });
  let between = 0;
  for (const group of groups.values()) between += group.length * (group.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0) / group.length - mean) ** 2;
  return between / total;
}

