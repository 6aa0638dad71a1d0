// Learning curves of the best trials: any metric, any axis, while they grow.
import { first } from "../../lib/api.js";
import { ended } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { ask, link, place } from "../../lib/router.js";
import { html, useMemo, useState } from "../../lib/view.js";
import { Empty, Loaded, Panel } from "../../parts/basic.js";
import { Pick } from "../../parts/fields.js";
import { chosenPlots, curveOf, groupsOf, isDrawn, Legend, MetricCharts, MetricChoice, MetricMenu, MOST_PLOTS, pointsOf, useCurveChoice } from "../../parts/metric_charts.js";

// Limits for one curve and for all curves. A chart draws as many points as a screen can show; a zoomed range is read
// again in detail.
const POINTS = 600;
const ALL_POINTS = 20_000;
const LEAST_POINTS = 50;
const NAMED = 30; // in the legend; a pointer at the chart names the others

/** @param {{ experiment: any }} props */
export function Overview({ experiment }) {
  const active = !ended(experiment.state);
  const names = useLive(
    async (signal) => (await first("/api/v1/experiments/metrics-stream/metric-names", { ids: experiment.id, once: true }, { signal }))?.metricNames.filter((/** @type {any} */ m) => isDrawn(m.name)) ?? [],
    [experiment.id, experiment.state],
    0,
    experiment.revision,
  );
  return html`<${Loaded} of=${names}>${(/** @type {any[]} */ known) => (known.length ? html`<${Curves} experiment=${experiment} known=${known} />` : html`<${NoMetrics} active=${active} />`)}<//>`;
}

/** @param {{ active: boolean }} props */
const NoMetrics = ({ active }) => html`
  <div class="panel">
    <${Empty} title="No metrics ${active ? "yet" : ""}"><p>${active ? "Charts appear when a trial reports its first metric." : "No trials of this experiment reported metrics."}</p><//>
  </div>
`;

/** @param {{ experiment: any, known: any[] }} props */
function Curves({ experiment, known }) {
  const plots = chosenPlots(known, experiment.searcherMetric);
  const drawn = plots.slice(0, MOST_PLOTS);
  const choice = useCurveChoice();
  const { axis, weight } = choice;
  const most = Number(place.value.query.get("trials") ?? 10) || 10;
  const keys = drawn.map((p) => p.key).join();
  const [range, setRange] = useState(/** @type {import("../../parts/chart_range.js").Range | null} */ (null));
  const sample = sampling(experiment.id, drawn, most);
  const told = useLive((signal) => sample(signal, {}), [experiment.id, experiment.state, keys, most], 0, experiment.revision);
  const [from, to] = range && axis === "batches" && drawn.length === 1 ? [Math.max(1, Math.floor(range.from)), Math.ceil(range.to)] : [0, 0];
  const detail = useLive(
    async (signal) => to > 0 && { from, to, samples: await sample(signal, { startBatches: from, endBatches: to }) },
    [experiment.id, keys, most, from, to],
    0,
    experiment.revision,
  );
  const samples = useMemo(() => detailed(told.data ?? [], detail.data), [told.data, detail.data]);
  const charts = useMemo(
    () =>
      plots.map((plot) => ({
        plot,
        curves: samples
          .filter((s) => s.plot.key === plot.key)
          .flatMap(({ group, trials }) => trials.map((/** @type {any} */ t) => ({ of: t.trialId, ...curveOf(plot, group, `Trial ${t.trialId}`), ...pointsOf(t.data, plot.name, choice) })))
          .filter((curve) => curve.x.length),
      })),
    [samples, keys, axis, weight],
  );
  const controls = html`
    <${MetricMenu} known=${known} chosen=${plots} />
    ${choice.controls}
    <${Pick} label="Trials" value=${String(most)} set=${(/** @type {string} */ trials) => ask({ trials })} of=${[5, 10, 25, 100].map((n) => [String(n), `best ${n}`])} />
  `;
  return html`
    <${Panel} title=${html`<${MetricChoice} known=${known} chosen=${plots} />`} actions=${controls}>
      <${Loaded} of=${told}>
        ${() =>
          charts.some((c) => c.curves.length)
            ? html`<${MetricCharts} charts=${charts} choice=${choice} onRange=${setRange} /><${TrialLegend} experiment=${experiment} trials=${samples[0].trials} plots=${plots} />`
            : html`<${Empty} title="No data"><p>No trials have reported ${plots.map((p) => p.name).join(", ")}${axis === "epochs" ? " with epochs" : ""}.</p><//>`}
      <//>
    <//>
  `;
}

/** @typedef {import("../../parts/metric_charts.js").Plot} Plot */
/** @typedef {{ plot: Plot, group: string, trials: any[] }} Sample the curves of the best trials, of one metric and group */

/** Return a function that reads the curves of all charts. @param {number} id of the experiment @param {Plot[]} plots @param {number} most trials @returns {(signal: AbortSignal, part: { startBatches?: number, endBatches?: number }) => Promise<Sample[]>} */
function sampling(id, plots, most) {
  const wanted = plots.flatMap((plot) => plot.groups.map((group) => ({ plot, group })));
  const maxDatapoints = Math.max(LEAST_POINTS, Math.min(POINTS, Math.round(ALL_POINTS / most / wanted.length)));
  return (signal, part) =>
    Promise.all(
      wanted.map(async ({ plot, group }) => {
        const asked = { metricName: plot.name, group, maxTrials: most, maxDatapoints, once: true, ...part };
        return { plot, group, trials: (await first(`/api/v1/experiments/${id}/metrics-stream/trials-sample`, asked, { signal }))?.trials ?? [] };
      }),
    );
}

/** Put the points of a part into the curves, in place of the few that they have there. @param {Sample[]} samples @param {any} part @returns {Sample[]} */
function detailed(samples, part) {
  if (!part) return samples;
  const { from, to } = part;
  return samples.map((sample, i) => {
    const found = new Map((part.samples[i]?.trials ?? []).map((/** @type {any} */ t) => [t.trialId, t.data]));
    return { ...sample, trials: sample.trials.map((t) => ({ ...t, data: [...t.data.filter((/** @type {any} */ p) => p.batches < from || p.batches > to), ...(found.get(t.trialId) ?? [])] })) };
  });
}

/** @param {{ experiment: any, trials: any[], plots: Plot[] }} props */
function TrialLegend({ experiment, trials, plots }) {
  const entries = trials.slice(0, NAMED).map((t) => ({ of: t.trialId, name: `Trial ${t.trialId}`, href: link(`/trials/${t.trialId}`), value: t.searcherMetricValue }));
  return html`
    <${Legend} by=${`Sorted by the best ${experiment.searcherMetric}.`} entries=${entries} groups=${groupsOf(plots)}>
      ${trials.length > NAMED && html`<li><a href=${link(`/experiments/${experiment.id}/trials`)}>and ${trials.length - NAMED} more</a></li>`}
    <//>
  `;
}
