// A heat map of two hyperparameters: the better the trials of a cell, the stronger its colour.
import { metric } from "../../lib/format.js";
import { ask, place } from "../../lib/router.js";
import { html } from "../../lib/view.js";
import { Panel } from "../../parts/basic.js";
import { Pick } from "../../parts/fields.js";

/** @typedef {import("./hp_axis.js").Axis} Axis */
/** @typedef {import("./hp_axis.js").Row} Row */

const BINS = 6;

/** Parts of an axis with their names: its words, or equal parts of its numbers. @param {Axis} axis @returns {string[]} */
function binsOf(axis) {
  if (axis.words) return axis.words.map((w) => w.replaceAll('"', ""));
  return Array.from({ length: BINS }, (_, i) => `${axis.back(i / BINS)} – ${axis.back((i + 1) / BINS)}`);
}

/** @param {Axis} axis @param {any} value */
function binOf(axis, value) {
  if (axis.words) return axis.words.indexOf(JSON.stringify(value) ?? "–");
  return Math.min(BINS - 1, Math.floor(axis.at(value) * BINS));
}

/** @param {Row[]} rows @param {Axis} across @param {Axis} down @returns {Map<string, number[]>} values by cell */
function cellsOf(rows, across, down) {
  const cells = new Map();
  for (const r of rows) {
    const key = `${binOf(down, r.hp[down.name])} ${binOf(across, r.hp[across.name])}`;
    cells.set(key, [...(cells.get(key) ?? []), r.value]);
  }
  return cells;
}

/** @param {{ axes: Axis[], goal: Axis, rows: Row[], smaller: boolean }} props `axes`: those that matter most first */
export function HeatMap({ axes, goal, rows, smaller }) {
  const { query } = place.value;
  const across = axes.find((a) => a.name === query.get("across")) ?? axes[0];
  const down = axes.find((a) => a.name === query.get("down") && a !== across) ?? axes.find((a) => a !== across) ?? axes[1];
  const cells = cellsOf(rows, across, down);
  const means = new Map([...cells].map(([key, values]) => [key, values.reduce((a, b) => a + b, 0) / values.length]));
  const places = [...means.values()].map(goal.at);
  const [least, most] = [Math.min(...places), Math.max(...places)];
  const shareOf = (/** @type {number} */ v) => (most === least ? 1 : smaller ? (most - v) / (most - least) : (v - least) / (most - least));
  const strength = (/** @type {number} */ mean) => shareOf(goal.at(mean));
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {Axis} */ chosen, /** @type {Axis} */ other) =>
    html`<${Pick} label=${label} value=${chosen.name} set=${(/** @type {string} */ to) => ask({ [name]: to })} of=${axes.filter((a) => a !== other).map((a) => [a.name, a.name])} />`;
  const actions = html`${choice("across", "Horizontal axis", across, down)}<span class="small soft">by</span>${choice("down", "Vertical axis", down, across)}`;
  return html`
    <${Panel} title="Heat map" actions=${actions}>
      <p class="soft small">Mean ${goal.name} of the trials in each cell. Stronger colours are better.</p>
      <div class="table-scroll" tabindex="0" role="region" aria-label="Heat map">
        <table class="heat">
          <thead><tr><th scope="col">${down.name} by ${across.name}</th>${binsOf(across).map((b) => html`<th scope="col">${b}</th>`)}</tr></thead>
          <tbody>
            ${binsOf(down).map((b, i) => html`<tr><th scope="row">${b}</th>${binsOf(across).map((_, j) => html`<${Cell} values=${cells.get(`${i} ${j}`)} mean=${means.get(`${i} ${j}`)} strength=${strength} />`)}</tr>`).reverse()}
          </tbody>
        </table>
      </div>
    <//>
  `;
}

/** @param {{ values?: number[], mean?: number, strength: (value: number) => number }} props */
function Cell({ values, mean, strength }) {
  if (!values || mean === undefined) return html`<td></td>`;
  return html`<td class="filled" style=${{ "--strength": `${Math.round(8 + 40 * strength(mean))}%` }} title=${`${values.length} trials, ${metric(Math.min(...values))} to ${metric(Math.max(...values))}`}>${metric(mean)}</td>`;
}
