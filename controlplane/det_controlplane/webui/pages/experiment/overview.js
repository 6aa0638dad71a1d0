// Learning curves of the best trials: any metric, any axis, while they grow.
import { first } from "../../lib/api.js";
import { ended, metric } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { ask, link, place } from "../../lib/router.js";
import { html, useMemo, useState } from "../../lib/view.js";
import { Empty, Loaded, Panel } from "../../parts/basic.js";
import { Chart } from "../../parts/chart.js";
import { Swatch } from "../../parts/curve_look.js";
import { AXES, chosenMetric, isDrawn, keyOf, MetricChoice, pointsOf, useCurveChoice } from "../../parts/curve_choice.js";
import { Pick } from "../../parts/fields.js";

// Limits for one curve and for all curves. A chart draws as many points as a screen can show; a zoomed range is read
// again in detail.
const POINTS = 600;
const ALL_POINTS = 20_000;
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
  const chosen = chosenMetric(known, experiment.searcherMetric);
  const choice = useCurveChoice();
  const { axis, log, ignores, weight } = choice;
  const most = Number(place.value.query.get("trials") ?? 10) || 10;
  const [range, setRange] = useState(/** @type {import("../../parts/chart_range.js").Range | null} */ (null));
  /** @param {AbortSignal} signal @param {{ startBatches?: number, endBatches?: number }} part */
  const sample = async (signal, part) => {
    const asked = { metricName: chosen.name, group: chosen.group, maxTrials: most, maxDatapoints: Math.min(POINTS, Math.round(ALL_POINTS / most)), once: true, ...part };
    return (await first(`/api/v1/experiments/${experiment.id}/metrics-stream/trials-sample`, asked, { signal }))?.trials ?? [];
  };
  const told = useLive((signal) => sample(signal, {}), [experiment.id, experiment.state, keyOf(chosen), most], 0, experiment.revision);
  const [from, to] = range && axis === "batches" ? [Math.max(1, Math.floor(range.from)), Math.ceil(range.to)] : [0, 0];
  const detail = useLive(
    async (signal) => to > 0 && { from, to, trials: await sample(signal, { startBatches: from, endBatches: to }) },
    [experiment.id, keyOf(chosen), most, from, to],
    0,
    experiment.revision,
  );
  const curves = useMemo(
    () => detailed(told.data ?? [], detail.data).map((/** @type {any} */ t) => ({ name: `Trial ${t.trialId}`, of: t.trialId, ...pointsOf(t.data, chosen.name, choice) })).filter((/** @type {any} */ c) => c.x.length),
    [told.data, detail.data, axis, weight],
  );
  const controls = html`
    ${choice.controls}
    <${Pick} label="Trials" value=${String(most)} set=${(/** @type {string} */ trials) => ask({ trials })} of=${[5, 10, 25, 100].map((n) => [String(n), `best ${n}`])} />
  `;
  return html`
    <${Panel} title=${html`<${MetricChoice} known=${known} chosen=${chosen} />`} actions=${controls}>
      <${Loaded} of=${told}>
        ${() =>
          curves.length
            ? html`<${Chart} curves=${curves} label=${`${chosen.name} by ${axis}`} x=${AXES[axis]} time=${axis === "time"} log=${log} ignores=${ignores} onRange=${setRange} /><${Legend} experiment=${experiment} trials=${told.data ?? []} name=${chosen.name} />`
            : html`<${Empty} title="No data"><p>No trials have reported ${chosen.name}${axis === "epochs" ? " with epochs" : ""}.</p><//>`}
      <//>
    <//>
  `;
}

/** Put the points of a part into the curves, in place of the few that they have there. @param {any[]} trials @param {any} part */
function detailed(trials, part) {
  if (!part) return trials;
  const { from, to } = part;
  const found = new Map(part.trials.map((/** @type {any} */ t) => [t.trialId, t.data]));
  return trials.map((t) => ({ ...t, data: [...t.data.filter((/** @type {any} */ p) => p.batches < from || p.batches > to), ...(found.get(t.trialId) ?? [])] }));
}

/** @param {{ experiment: any, trials: any[], name: string }} props */
const Legend = ({ experiment, trials, name }) => html`
  <ul class="legend" aria-label="Chart legend">
    ${trials.slice(0, NAMED).map((t) => {
      const last = t.data.findLast((/** @type {any} */ p) => typeof p.values[name] === "number");
      return html`<li><${Swatch} of=${t.trialId} /><a href=${link(`/trials/${t.trialId}`)}>Trial ${t.trialId}</a><span class="faint number">${metric(last?.values[name])}</span></li>`;
    })}
    ${trials.length > NAMED && html`<li><a href=${link(`/experiments/${experiment.id}/trials`)}>and ${trials.length - NAMED} more</a></li>`}
  </ul>
`;
