// Learning curves of the best trials: any metric, any axis, while they grow.
import { first } from "../../lib/api.js";
import { ended, metric } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { ask, link, place } from "../../lib/router.js";
import { html, useMemo, useState } from "../../lib/view.js";
import { Empty, Loaded, Panel } from "../../parts/basic.js";
import { Chart, smoothed, Swatch } from "../../parts/chart.js";

const AXES = { batches: "batches", epochs: "epochs", time: "time", elapsed: "seconds" };
const POINTS = 600;

/** @param {{ experiment: any }} props */
export function Overview({ experiment }) {
  const active = !ended(experiment.state);
  const names = useLive(
    async (signal) => (await first("/api/v1/experiments/metrics-stream/metric-names", { ids: experiment.id }, { signal }))?.metricNames ?? [],
    [experiment.id, experiment.state],
    active ? 8_000 : 0,
  );
  return html`<${Loaded} of=${names}>${(/** @type {any[]} */ known) => (known.length ? html`<${Curves} experiment=${experiment} known=${known} />` : html`<${NoMetrics} active=${active} />`)}<//>`;
}

/** @param {{ active: boolean }} props */
const NoMetrics = ({ active }) => html`
  <div class="panel">
    <${Empty} title="No metrics ${active ? "yet" : ""}"><p>${active ? "Curves appear as soon as a trial reports its first metric." : "No trial of this experiment has reported a metric."}</p><//>
  </div>
`;

/** @param {any} m */
const keyOf = (m) => `${m.group}.${m.name}`;

/** @param {{ experiment: any, known: any[] }} props */
function Curves({ experiment, known }) {
  const { query } = place.value;
  const usual = keyOf(known.find((m) => m.name === experiment.searcherMetric && m.group === "validation") ?? known[0]);
  const chosen = known.find((m) => keyOf(m) === query.get("metric")) ?? known.find((m) => keyOf(m) === usual);
  const axis = /** @type {keyof AXES} */ (query.get("axis") ?? "batches") in AXES ? /** @type {keyof AXES} */ (query.get("axis") ?? "batches") : "batches";
  const most = Number(query.get("trials") ?? 10);
  const log = query.has("log");
  const [weight, setWeight] = useState(0);
  const told = useLive(
    async (signal) => {
      const asked = { metricName: chosen.name, group: chosen.group, maxTrials: most, maxDatapoints: POINTS };
      return (await first(`/api/v1/experiments/${experiment.id}/metrics-stream/trials-sample`, asked, { signal }))?.trials ?? [];
    },
    [experiment.id, experiment.state, keyOf(chosen), most],
    ended(experiment.state) ? 0 : 2_500,
  );
  const curves = useMemo(() => (told.data ?? []).map((/** @type {any} */ t) => curveOf(t, chosen.name, axis, weight)).filter((/** @type {any} */ c) => c.x.length), [told.data, axis, weight]);
  const controls = html`
    <label class="row small soft"><input class="check" type="checkbox" checked=${log} onChange=${() => ask({ log: log ? "" : "1" })} />Log scale</label>
    <label class="row small soft">Smoothing<input type="range" min="0" max="0.95" step="0.05" value=${weight} onInput=${(/** @type {any} */ e) => setWeight(Number(e.target.value))} /></label>
    <select class="input inline" aria-label="Axis" value=${axis} onChange=${(/** @type {any} */ e) => ask({ axis: e.target.value })}>
      <option value="batches">by batches</option><option value="epochs">by epochs</option><option value="time">by time</option><option value="elapsed">by seconds of training</option>
    </select>
    <select class="input inline" aria-label="Trials" value=${String(most)} onChange=${(/** @type {any} */ e) => ask({ trials: e.target.value })}>
      ${[5, 10, 25, 100].map((n) => html`<option value=${String(n)}>best ${n}</option>`)}
    </select>
  `;
  const pick = html`
    <select class="input inline" aria-label="Metric" value=${keyOf(chosen)} onChange=${(/** @type {any} */ e) => ask({ metric: e.target.value })}>
      ${known.map((m) => html`<option value=${keyOf(m)}>${m.name} (${m.group})</option>`)}
    </select>
  `;
  return html`
    <${Panel} title=${pick} actions=${controls}>
      <${Loaded} of=${told}>
        ${() =>
          curves.length
            ? html`<${Chart} curves=${curves} label=${`${chosen.name} by ${axis}`} x=${AXES[axis]} time=${axis === "time"} log=${log} /><${Legend} trials=${told.data ?? []} name=${chosen.name} />`
            : html`<${Empty} title="Nothing to draw"><p>No trial has values of ${chosen.name}${axis === "epochs" ? " with epochs" : ""}.</p><//>`}
      <//>
    <//>
  `;
}

/** @param {any} trial @param {string} name @param {keyof AXES} axis @param {number} weight @returns {import("../../parts/chart.js").Curve} */
function curveOf(trial, name, axis, weight) {
  const start = trial.data.length ? Date.parse(trial.data[0].time) / 1000 : 0;
  const at = {
    batches: (/** @type {any} */ p) => p.batches,
    epochs: (/** @type {any} */ p) => p.epoch,
    time: (/** @type {any} */ p) => Date.parse(p.time) / 1000,
    elapsed: (/** @type {any} */ p) => Date.parse(p.time) / 1000 - start,
  }[axis];
  const points = trial.data.filter((/** @type {any} */ p) => typeof at(p) === "number" && typeof p.values[name] === "number");
  points.sort((/** @type {any} */ a, /** @type {any} */ b) => at(a) - at(b));
  return { name: `Trial ${trial.trialId}`, x: points.map(at), y: smoothed(points.map((/** @type {any} */ p) => p.values[name]), weight) };
}

/** @param {{ trials: any[], name: string }} props */
const Legend = ({ trials, name }) => html`
  <ul class="legend" aria-label="Trials of the chart">
    ${trials.slice(0, 30).map((t, i) => {
      const last = t.data.findLast((/** @type {any} */ p) => typeof p.values[name] === "number");
      return html`<li><${Swatch} n=${i} /><a href=${link(`/trials/${t.trialId}`)}>Trial ${t.trialId}</a><span class="faint number">${metric(last?.values[name])}</span></li>`;
    })}
  </ul>
`;
