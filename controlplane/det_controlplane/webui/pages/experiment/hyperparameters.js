// The effect of hyperparameters: the importance of each, and the distribution of trials.
import { counted, metric } from "../../lib/format.js";
import { useRoving } from "../../lib/roving.js";
import { ask, link, place } from "../../lib/router.js";
import { flat, useImportance, useTrials, varied } from "../../lib/trials.js";
import { html, useState } from "../../lib/view.js";
import { Button, Empty, Loaded, Panel } from "../../parts/basic.js";
import { colourOf } from "../../parts/curve_look.js";
import { Pick } from "../../parts/fields.js";
import { useScaleChoice } from "../../parts/metric_charts.js";
import { axisOf, declared, goalAxis, Label, LETTER, LINE, linesOf } from "./hp_axis.js";
import { fits, Parallel } from "./hp_parallel.js";

/** @typedef {import("./hp_axis.js").Axis} Axis */
/** @typedef {import("./hp_axis.js").Row} Row */
/** @typedef {import("../../lib/trials.js").Importances} Importances */

// A comparison of more curves would be unreadable.
const COMPARED = 8;
const BINS = 6; // of an axis in the heat map

/** @param {{ experiment: any }} props */
export function Hyperparameters({ experiment }) {
  const trials = useTrials(experiment);
  return html`<${Loaded} of=${trials}>${(/** @type {any[]} */ rows) => html`<${Views} experiment=${experiment} trials=${rows.filter((t) => typeof t.searcherMetricValue === "number")} />`}<//>`;
}

/** @param {{ experiment: any, trials: any[] }} props */
function Views({ experiment, trials }) {
  const [brushes, setBrushes] = useState(/** @type {import("./hp_parallel.js").Brushes} */ ({}));
  const choice = useScaleChoice();
  const importances = useImportance(experiment);
  const names = varied(trials);
  if (!names.length) {
    return html`<div class="panel"><${Empty} title="Nothing to compare yet"><p>At least two trials with different hyperparameters must report ${experiment.searcherMetric}.</p><//></div>`;
  }
  const smaller = experiment.config.searcher.smaller_is_better !== false;
  const rows = trials.map((t) => ({ id: t.id, value: t.searcherMetricValue, hp: flat(t.hparams) }));
  const axes = names.map((name) => axisOf(name, rows.map((r) => r.hp[name]), declared(experiment.hyperparameters, name)?.type === "log"));
  const goal = goalAxis(experiment.searcherMetric, rows.map((r) => r.value), choice);
  const order = new Map(importances.data?.hyperparameters.map((h, i) => [h.name, i]));
  const ordered = [...axes].sort((a, b) => (order.get(a.name) ?? axes.length) - (order.get(b.name) ?? axes.length));
  const within = rows.filter((r) => fits(r, [...axes, goal], goal, brushes));
  return html`
    <div class="stack">
      <${Panel} title="Importance"><${Loaded} of=${importances}>${(/** @type {Importances} */ found) => html`<${Importance} found=${found} />`}<//><//>
      <${Panel} title="Parallel coordinates" actions=${html`${choice.controls}<${Within} within=${within} rows=${rows} smaller=${smaller} clear=${() => setBrushes({})} />`}>
        <${Parallel} axes=${[...axes, goal]} rows=${rows} smaller=${smaller} brushes=${brushes} setBrushes=${setBrushes} />
        ${goal.outside > 0 && html`<p class="faint small" role="status">${counted(goal.outside, "trial")} of ${rows.length} ${goal.outside === 1 ? "lies" : "lie"} beyond the axis of ${goal.name}, drawn at its end.</p>`}
      <//>
      ${axes.length > 1 && html`<${HeatMap} axes=${ordered} goal=${goal} rows=${within} smaller=${smaller} />`}
      <div class="columns">
        ${axes.map((axis) => html`<${Panel} title=${axis.name}><${Scatter} axis=${axis} goal=${goal} rows=${within} /><//>`)}
      </div>
    </div>
  `;
}

/** @param {{ within: any[], rows: any[], smaller: boolean, clear: () => void }} props */
function Within({ within, rows, smaller, clear }) {
  const best = [...within].sort((a, b) => (smaller ? a.value - b.value : b.value - a.value)).slice(0, COMPARED);
  const narrowed = within.length < rows.length;
  return html`
    <span class="small soft" role="status">${narrowed ? `${within.length} of ${counted(rows.length, "trial")}` : counted(rows.length, "trial")}</span>
    ${best.length > 1 && html`<${Button} icon="columns" href=${link(`/compare?trials=${best.map((r) => r.id).join(",")}`)}>Compare the best ${best.length}<//>`}
    ${narrowed && html`<${Button} icon="close" onClick=${clear}>Show all<//>`}
  `;
}

/** @param {{ found: Importances }} props */
const Importance = ({ found }) => html`
  <p class="soft small">${found.note}</p>
  <ul class="bars">
    ${found.hyperparameters.map((h) => html`<li><span class="cut">${h.name}</span><span class="bar"><span style=${{ width: `${Math.max(1, h.importance * 100)}%` }} /></span><span class="number">${Math.round(h.importance * 100)} %</span></li>`)}
  </ul>
`;

/** @param {{ axis: Axis, goal: Axis, rows: any[] }} props */
function Scatter({ axis, goal, rows }) {
  const x = (/** @type {number} */ p) => 66 + p * 400;
  const y = (/** @type {number} */ p) => 216 - p * 196;
  // A label at the edge has less room than the others.
  const letters = Math.floor(Math.min(2 * x(0), 400 / Math.max(1, axis.ticks.length - 1)) / LETTER) - 1;
  const lines = Math.max(1, ...axis.ticks.map(([, text]) => linesOf(text, letters).length));
  const points = [...rows].sort((a, b) => axis.at(a.hp[axis.name]) - axis.at(b.hp[axis.name]));
  const { part, onKeyDown } = useRoving(points.length);
  return html`
    <svg class="scatter" viewBox=${`0 0 500 ${250 + LINE * (lines - 1)}`} role="group" aria-label=${`${goal.name} of ${rows.length} trials by ${axis.name}; use the arrow keys to move between trials`} onKeyDown=${onKeyDown}>
      ${goal.ticks.map(([p, text]) => html`<line x1="60" x2="480" y1=${y(p)} y2=${y(p)} class="grid" /><text x="52" y=${y(p) + 4} text-anchor="end" class="tick">${text}</text>`)}
      ${axis.ticks.map(([p, text]) => html`<${Label} text=${text} letters=${letters} x=${x(p)} y=${240} text-anchor="middle" class="tick" />`)}
      ${points.map((r, i) => html`<a key=${r.id} href=${link(`/trials/${r.id}`)} aria-label=${`Trial ${r.id}: ${metric(r.value)} at ${metric(r.hp[axis.name])}`} ...${part(i)}><circle cx=${x(axis.at(r.hp[axis.name]))} cy=${y(goal.at(r.value))} r="4.5" style=${{ "--curve": `var(${colourOf(r.id)})` }}><title>Trial ${r.id}: ${metric(r.value)}</title></circle></a>`)}
    </svg>
  `;
}

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
function HeatMap({ axes, goal, rows, smaller }) {
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
