// What the hyperparameters did: how much each mattered, and how trials lie between them.
import { metric } from "../../lib/format.js";
import { flat, useTrials, varied } from "../../lib/trials.js";
import { html } from "../../lib/view.js";
import { Empty, Loaded, Panel } from "../../parts/basic.js";

const WIDTH = 1000;
const HEIGHT = 320;
const PAD = 60;

/** @typedef {{ name: string, log: boolean, words: string[] | null, at: (value: any) => number, ticks: [number, string][] }} Axis positions of 0 to 1 */

/** @param {{ experiment: any }} props */
export function Hyperparameters({ experiment }) {
  const trials = useTrials(experiment);
  return html`<${Loaded} of=${trials}>${(/** @type {any[]} */ rows) => html`<${Views} experiment=${experiment} trials=${rows.filter((t) => typeof t.searcherMetricValue === "number")} />`}<//>`;
}

/** @param {{ experiment: any, trials: any[] }} props */
function Views({ experiment, trials }) {
  const names = varied(trials);
  if (!names.length) {
    return html`<div class="panel"><${Empty} title="Nothing to compare"><p>Two trials with different hyperparameters and a value of ${experiment.searcherMetric} are needed.</p><//></div>`;
  }
  const smaller = experiment.config.searcher.smaller_is_better !== false;
  const rows = trials.map((t) => ({ id: t.id, value: t.searcherMetricValue, hp: flat(t.hparams) }));
  const axes = names.map((name) => axisOf(name, rows.map((r) => r.hp[name]), declared(experiment.hyperparameters, name)?.type === "log"));
  const goal = axisOf(experiment.searcherMetric, rows.map((r) => r.value), false);
  return html`
    <div class="stack">
      <${Panel} title="How much each mattered"><${Importance} axes=${axes} rows=${rows} metricName=${experiment.searcherMetric} /><//>
      <${Panel} title="All at once"><${Parallel} axes=${[...axes, goal]} rows=${rows} smaller=${smaller} /><//>
      <div class="columns">
        ${axes.map((axis) => html`<${Panel} title=${axis.name}><${Scatter} axis=${axis} goal=${goal} rows=${rows} /><//>`)}
      </div>
    </div>
  `;
}

/** @param {any} hparams @param {string} name */
function declared(hparams, name) {
  let at = hparams;
  for (const part of name.split(".")) at = at?.[part];
  return at;
}

/** @param {string} name @param {any[]} values @param {boolean} log @returns {Axis} */
function axisOf(name, values, log) {
  const numeric = values.every((v) => typeof v === "number" || v === undefined) && new Set(values).size > 5;
  if (!numeric) {
    const words = [...new Set(values.map((v) => JSON.stringify(v) ?? "–"))].sort((a, b) => Number(a) - Number(b) || a.localeCompare(b));
    const place = (/** @type {number} */ i) => (words.length === 1 ? 0.5 : i / (words.length - 1));
    return { name, log: false, words, at: (v) => place(words.indexOf(JSON.stringify(v) ?? "–")), ticks: words.map((w, i) => [place(i), w.replaceAll('"', "")]) };
  }
  const numbers = values.filter((v) => typeof v === "number");
  const bend = (/** @type {number} */ v) => (log ? Math.log(v) : v);
  const [low, high] = [bend(Math.min(...numbers)), bend(Math.max(...numbers))];
  const at = (/** @type {any} */ v) => (high === low ? 0.5 : (bend(v) - low) / (high - low));
  const ticks = [0, 0.5, 1].map((p) => /** @type {[number, string]} */ ([p, metric(Number((log ? Math.exp(low + p * (high - low)) : low + p * (high - low)).toPrecision(2)))]));
  return { name, log, words: null, at, ticks };
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

/** @param {{ axes: Axis[], rows: any[], metricName: string }} props */
function Importance({ axes, rows, metricName }) {
  const found = axes.map((axis) => ({ name: axis.name, share: importance(axis, rows) })).sort((a, b) => b.share - a.share);
  return html`
    <p class="soft small">The share of the trials’ order by ${metricName} that goes along with one hyperparameter alone; a hint, not a proof, and rough with few trials.</p>
    <ul class="bars">
      ${found.map((f) => html`<li><span class="cut">${f.name}</span><span class="bar"><span style=${{ width: `${Math.max(1, f.share * 100)}%` }} /></span><span class="number">${Math.round(f.share * 100)} %</span></li>`)}
    </ul>
  `;
}

/** @param {{ axes: Axis[], rows: any[], smaller: boolean }} props */
function Parallel({ axes, rows, smaller }) {
  const goal = axes[axes.length - 1];
  const x = (/** @type {number} */ i) => PAD + ((WIDTH - 2 * PAD) * i) / (axes.length - 1);
  const y = (/** @type {number} */ p) => HEIGHT - 24 - p * (HEIGHT - 64);
  const drawn = [...rows].sort((a, b) => (smaller ? b.value - a.value : a.value - b.value));
  return html`
    <div class="table-scroll">
      <svg class="parallel" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${rows.length} trials over ${axes.map((a) => a.name).join(", ")}`}>
        ${drawn.map((r, n) => {
          const points = axes.map((a, i) => `${x(i).toFixed(1)},${y(a === goal ? a.at(r.value) : a.at(r.hp[a.name])).toFixed(1)}`);
          return html`<polyline points=${points.join(" ")} opacity=${0.12 + (0.8 * (n + 1)) / drawn.length}><title>Trial ${r.id}: ${metric(r.value)}</title></polyline>`;
        })}
        ${axes.map(
          (a, i) => html`
            <line x1=${x(i)} x2=${x(i)} y1=${y(0)} y2=${y(1)} class="axis" />
            <text x=${x(i)} y="14" text-anchor="middle" class="axis-name">${a.name}${a.log ? " (log)" : ""}</text>
            ${a.ticks.map(([p, text]) => html`<text x=${x(i) + 8} y=${y(p) + 4} class="tick">${text}</text>`)}
          `,
        )}
      </svg>
    </div>
  `;
}

/** @param {{ axis: Axis, goal: Axis, rows: any[] }} props */
function Scatter({ axis, goal, rows }) {
  const x = (/** @type {number} */ p) => 66 + p * 400;
  const y = (/** @type {number} */ p) => 216 - p * 196;
  return html`
    <svg class="scatter" viewBox="0 0 500 250" role="img" aria-label=${`${goal.name} of ${rows.length} trials by ${axis.name}`}>
      ${goal.ticks.map(([p, text]) => html`<line x1="60" x2="480" y1=${y(p)} y2=${y(p)} class="grid" /><text x="52" y=${y(p) + 4} text-anchor="end" class="tick">${text}</text>`)}
      ${axis.ticks.map(([p, text]) => html`<text x=${x(p)} y="240" text-anchor="middle" class="tick">${text}</text>`)}
      ${rows.map((r) => html`<circle cx=${x(axis.at(r.hp[axis.name]))} cy=${y(goal.at(r.value))} r="4.5"><title>Trial ${r.id}: ${metric(r.value)}</title></circle>`)}
    </svg>
  `;
}
