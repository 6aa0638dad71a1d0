// The values of all curves at the cursor of a chart.
import { counted, metric } from "../lib/format.js";
import { h, render } from "../lib/view.js";
import { indexOf } from "./chart_scale.js";
import { isAlone, Swatch } from "./curve_look.js";

/** @typedef {import("./chart.js").Curve} Curve */
/** @typedef {{ name: string, of: number, thin: boolean, value: number, distance: number }} Row */

const MOST = 16; // rows
const GAP_PX = 12;

/** Return the value of each curve that has begun and has not ended at a place, the greatest first. @param {any} plot @param {Curve[]} curves @param {number} at @param {number} top of the cursor @returns {Row[]} */
function rowsAt(plot, curves, at, top) {
  const rows = [];
  for (const [n, { name, of = n, thin = false, x, y }] of curves.entries()) {
    if (!x.length || at < x[0] || at > x[x.length - 1]) continue;
    const next = indexOf(x, at);
    const value = y[next > 0 && at - x[next - 1] < x[next] - at ? next - 1 : next];
    if (value === null || !Number.isFinite(value)) continue;
    rows.push({ name, of, thin, value, distance: Math.abs(plot.valToPos(value, "y") - top) });
  }
  return rows.sort((a, b) => b.value - a.value);
}

/** Keep the rows around the nearest one. @param {Row[]} rows @param {number} nearest */
function around(rows, nearest) {
  const from = Math.max(0, Math.min(nearest - MOST / 2, rows.length - MOST));
  return { above: from, shown: rows.slice(from, from + MOST), below: Math.max(0, rows.length - from - MOST) };
}

/** Show the values at the cursor beside it. @param {any} plot @param {HTMLElement | null} tip @param {Curve[]} curves @param {string} x @param {boolean} time */
export function showTip(plot, tip, curves, x, time) {
  if (!tip) return;
  const { left, top, idx } = plot.cursor;
  const at = idx === null || idx === undefined || left < 0 ? null : plot.data[0][idx];
  const rows = at === null ? [] : rowsAt(plot, curves, at, top);
  tip.hidden = !rows.length;
  if (!rows.length) return;
  const nearest = rows.reduce((best, row, i) => (row.distance < rows[best].distance ? i : best), 0);
  const { above, shown, below } = around(rows, nearest);
  const where = time ? new Date(at * 1000).toLocaleTimeString("en-GB") : `${metric(at)} ${x}`;
  const rest = (/** @type {number} */ count) => count > 0 && h("tr", null, h("td", { colspan: 3 }, `${counted(count, "more curve")}`));
  const alone = isAlone(curves.map((c) => c.of));
  const line = (/** @type {Row} */ row) =>
    h("tr", { class: row === rows[nearest] ? "near" : "" }, h("td", null, h(Swatch, { ...row, alone })), h("td", null, row.name), h("td", { class: "number" }, metric(row.value)));
  render(h("table", null, h("caption", null, where), h("tbody", null, rest(above), ...shown.map(line), rest(below))), tip);
  const from = plot.bbox.left / devicePixelRatio;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const right = from + left + GAP_PX;
  tip.style.left = `${Math.max(0, right + width <= plot.width ? right : from + left - GAP_PX - width)}px`;
  tip.style.top = `${Math.max(0, Math.min(top - height / 2, plot.height - height))}px`;
}
