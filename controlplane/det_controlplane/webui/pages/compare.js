// Compare experiments or trials: their curves in one chart, then hyperparameters and results.
import { first, get } from "../lib/api.js";
import { duration, ended, metric, money } from "../lib/format.js";
import { MOST_COMPARED } from "../lib/experiments.js";
import { useLive } from "../lib/live.js";
import { maySomewhere } from "../lib/rights.js";
import { ask, link, place } from "../lib/router.js";
import { flat, shownState } from "../lib/trials.js";
import { html, useMemo } from "../lib/view.js";
import { Button, Empty, Head, Loaded, Panel, State } from "../parts/basic.js";
import { Swatch } from "../parts/curve_look.js";
import { Check } from "../parts/fields.js";
import { chosenPlots, curveOf, groupsOf, isDrawn, Legend, MetricCharts, MetricChoice, MetricMenu, MOST_PLOTS, pointsOf, useCurveChoice } from "../parts/metric_charts.js";
import { Span } from "../parts/time.js";

const POINTS = 600;
const FEW_POINTS = 200; // of several charts
const LIVE_MS = 5_000;

/**
 * What is compared: an experiment, or a trial.
 * @typedef {{ kind: "experiments" | "trials", id: number, name: string, href: string, state: string, shown: string, searched: string, smaller: boolean, experiment: number, trial: number | null, facts: Record<string, any>, given: Record<string, any>, hparams: Record<string, any> }} Side
 */

/** @param {string} name @returns {number[]} */
const idsOf = (name) => [...new Set((place.value.query.get(name) ?? "").split(",").map(Number))].filter((id) => Number.isInteger(id) && id > 0);

export function Page() {
  const [experiments, trials] = [idsOf("experiments").slice(0, MOST_COMPARED), idsOf("trials").slice(0, MOST_COMPARED)];
  const left = idsOf("experiments").length + idsOf("trials").length - experiments.length - trials.length;
  const found = useLive(
    (signal) => Promise.all([...experiments.map((id) => experimentSide(id, signal)), ...trials.map((id) => trialSide(id, signal))]),
    [experiments.join(), trials.join()],
    (sides) => (sides.every((s) => ended(s.state)) ? 0 : LIVE_MS),
  );
  if (!experiments.length && !trials.length) return html`<${Head} title="Compare" /><div class="panel"><${Nothing} /></div>`;
  return html`<${Loaded} of=${found} title="Compare">${(/** @type {Side[]} */ sides) => html`<${Sides} sides=${sides} left=${left} />`}<//>`;
}

const Nothing = () => html`
  <${Empty} title="Nothing to compare">
    <p>Select experiments in the list, or trials on the page of an experiment, then select “Compare”.</p>
    <${Button} href=${link("/experiments")}>Experiments<//>
  <//>
`;

/** @param {any} e an experiment */
const smallerOf = (e) => e.config.searcher.smaller_is_better !== false;

/** @param {number} id @param {AbortSignal} signal @returns {Promise<Side>} */
async function experimentSide(id, signal) {
  const [{ experiment: e }, cost] = await Promise.all([
    get(`/api/v1/experiments/${id}`, {}, { signal }),
    get("/api/v1/costs/experiments", { ids: id }, { signal }).catch(() => ({ costs: [] })),
  ]);
  const best = e.bestTrialId ? (await get(`/api/v1/trials/${e.bestTrialId}`, {}, { signal })).trial : null;
  return {
    kind: "experiments", id, name: e.name, href: link(`/experiments/${id}`), state: e.state, shown: e.state, searched: e.searcherMetric, smaller: smallerOf(e), experiment: id, trial: e.bestTrialId ?? null,
    facts: {
      "Best value": html`${metric(e.bestTrialSearcherMetric)} <span class="faint">${e.searcherMetric}</span>`,
      "Best trial": best && html`<a href=${link(`/trials/${best.id}`)}>${best.id}</a>`,
      Trials: e.numTrials,
      Duration: html`<${Span} from=${e.startTime} to=${e.endTime} />`,
      Cost: money(cost.costs[0]?.costUsd),
      User: e.displayName || e.username,
    },
    given: flat(e.config),
    hparams: flat(best?.hparams),
  };
}

/** @param {number} id @param {AbortSignal} signal @returns {Promise<Side>} */
async function trialSide(id, signal) {
  const { trial: t } = await get(`/api/v1/trials/${id}`, {}, { signal });
  const { experiment: e } = await get(`/api/v1/experiments/${t.experimentId}`, {}, { signal });
  return {
    kind: "trials", id, name: `Trial ${id}`, href: link(`/trials/${id}`), state: t.state, shown: shownState(t), searched: e.searcherMetric, smaller: smallerOf(e), experiment: e.id, trial: id,
    facts: {
      "Best value": html`${metric(t.searcherMetricValue)} <span class="faint">${e.searcherMetric}</span>`,
      Experiment: html`<a href=${link(`/experiments/${e.id}`)}>${e.id}</a>`,
      Batches: metric(t.totalBatchesProcessed),
      Duration: t.wallClockTime ? duration(t.wallClockTime) : html`<${Span} from=${t.startTime} to=${t.endTime} />`,
      Restarts: t.restarts,
    },
    given: flat(e.config),
    hparams: flat(t.hparams),
  };
}

/** @param {{ sides: Side[], left: number }} props */
function Sides({ sides, left }) {
  const what = sides.every((s) => s.kind === sides[0].kind) ? sides[0].kind : "experiments and trials";
  const drawn = new URLSearchParams({ new: "tensorboard" });
  for (const { kind, id } of sides) drawn.set(kind, [drawn.get(kind), id].filter(Boolean).join(", "));
  return html`
    <${Head} title=${`Compare ${sides.length} ${what}`} text="Compare metrics and settings. Share this page by copying its URL.">
      ${maySomewhere("CREATE_NSC") && html`<${Button} href=${link(`/tasks?${drawn.toString()}`)}>TensorBoard<//>`}
    <//>
    <div class="stack">
      ${left > 0 && html`<p class="notice quiet">Showing the first ${MOST_COMPARED} of each kind; ${left} more in the URL are hidden. Remove some to see the next.</p>`}
      <${Together} sides=${sides} />
      <${Differences} sides=${sides} />
    </div>
  `;
}

/** @param {{ sides: Side[] }} props */
function Together({ sides }) {
  const ids = [...new Set(sides.map((s) => s.experiment))];
  const names = useLive(async (signal) => (await first("/api/v1/experiments/metrics-stream/metric-names", { ids, once: true }, { signal }))?.metricNames.filter((/** @type {any} */ m) => isDrawn(m.name)) ?? [], [ids.join()]);
  return html`<${Loaded} of=${names}>${(/** @type {any[]} */ known) => (known.length ? html`<${Curves} sides=${sides} known=${known} />` : html`<div class="panel"><${Empty} title="No metrics yet" /></div>`)}<//>`;
}

/** @param {{ sides: Side[], known: any[] }} props */
function Curves({ sides, known }) {
  const plots = chosenPlots(known, sides[0].searched);
  const choice = useCurveChoice();
  const { axis, weight } = choice;
  const trialIds = sides.flatMap((s) => (s.trial === null ? [] : [s.trial]));
  const metricIds = plots.slice(0, MOST_PLOTS).flatMap((plot) => plot.groups.map((group) => `${group}.${plot.name}`));
  const maxDatapoints = metricIds.length > 1 ? FEW_POINTS : POINTS;
  const told = useLive(
    async (signal) => (trialIds.length ? (await get("/api/v1/trials/time-series", { trialIds, metricIds, maxDatapoints }, { signal })).trials : []),
    [trialIds.join(), metricIds.join()],
    sides.every((s) => ended(s.state)) ? 0 : LIVE_MS,
  );
  const charts = useMemo(() => {
    const data = new Map((told.data ?? []).flatMap((/** @type {any} */ t) => t.metrics.map((/** @type {any} */ m) => [`${t.trial.id} ${m.group}`, m.data])));
    const curves = (/** @type {import("../parts/metric_charts.js").Plot} */ plot) =>
      plot.groups.flatMap((group) => sides.map((s) => ({ of: s.trial ?? s.id, ...curveOf(plot, group, titleOf(s)), ...pointsOf(data.get(`${s.trial} ${group}`) ?? [], plot.name, choice) })));
    return plots.map((plot) => ({ plot, curves: curves(plot).filter((c) => c.x.length) }));
  }, [told.data, axis, weight, metricIds.join(), sides.map((s) => `${s.kind} ${s.trial}`).join()]);
  return html`
    <${Panel} title=${html`<${MetricChoice} known=${known} chosen=${plots} />`} actions=${html`<${MetricMenu} known=${known} chosen=${plots} />${choice.controls}`}>
      <${Loaded} of=${told}>
        ${() =>
          charts.some((c) => c.curves.length)
            ? html`<${MetricCharts} charts=${charts} choice=${choice} /><${SideLegend} sides=${sides} chart=${charts[0]} plots=${plots} />`
            : html`<${Empty} title="No data"><p>None of these has reported ${plots.map((p) => p.name).join(", ")}.</p><//>`}
      <//>
    <//>
  `;
}

/** @param {{ sides: Side[], chart: { plot: any, curves: import("../parts/chart.js").Curve[] }, plots: any[] }} props */
function SideLegend({ sides, chart, plots }) {
  const last = (/** @type {Side} */ s) => chart.curves.find((c) => c.of === s.trial && !c.thin)?.last;
  const entries = sides.flatMap((s) => (s.trial === null ? [] : [{ of: s.trial, name: titleOf(s), href: s.href, value: last(s) }]));
  const sign = sides[0].smaller ? 1 : -1;
  const rank = (/** @type {unknown} */ value) => (typeof value === "number" ? sign * value : value === undefined ? Infinity : Number.MAX_VALUE);
  entries.sort((a, b) => rank(a.value) - rank(b.value) || 0);
  return html`<${Legend} by=${`Sorted by the last ${chart.plot.name}.`} entries=${entries} groups=${groupsOf(plots)} />`;
}

/** @param {Side} s */
const titleOf = (s) => (s.kind === "trials" ? s.name : `${s.id} · ${s.name}`);

/** Names under which the sides have different values; all names if asked. @param {Record<string, any>[]} of @param {boolean} all */
function rowsOf(of, all) {
  const names = [...new Set(of.flatMap((values) => Object.keys(values)))];
  return all ? names : names.filter((name) => new Set(of.map((values) => JSON.stringify(values[name]))).size > 1);
}

/** Allow line breaks after the dots of a name. @param {string} name */
const breakable = (name) => name.split(".").map((part, i) => (i ? html`.<wbr />${part}` : part));

/** @param {any} value */
const shown = (value) => (value === undefined ? html`<span class="faint">–</span>` : html`<code>${typeof value === "string" ? value : JSON.stringify(value)}</code>`);

/** @param {{ sides: Side[] }} props */
function Differences({ sides }) {
  const all = place.value.query.has("all") || sides.length === 1;
  const facts = [...new Set(sides.flatMap((s) => Object.keys(s.facts)))];
  const hparams = rowsOf(sides.map((s) => s.hparams), all);
  // Ranges of hyperparameters are shown with the configuration, separate from the values of trials.
  const given = rowsOf(sides.map((s) => s.given), all);
  const group = (/** @type {string} */ title, /** @type {string[]} */ names, /** @type {(s: Side, name: string) => any} */ cell) =>
    names.length > 0 &&
    html`<tbody>
      <tr><th scope="rowgroup" colspan=${sides.length + 1} class="group-title">${title}</th></tr>
      ${names.map((name) => html`<tr><th scope="row">${breakable(name)}</th>${sides.map((s) => html`<td class="wrap">${cell(s, name)}</td>`)}</tr>`)}
    </tbody>`;
  const actions = html`<${Check} label="Show identical values" value=${all} onChange=${() => ask({ all: all ? "" : "1" })} />`;
  return html`
    <${Panel} title="Differences" actions=${actions} flush>
      <div class="table-scroll" tabindex="0" role="region" aria-label="Differences">
        <table class="table compared">
          <thead><tr><th scope="col"><span class="hidden-visually">Property</span></th>${sides.map((s) => html`<th scope="col">${s.trial !== null && html`<${Swatch} of=${s.trial} />`} <a href=${s.href}>${titleOf(s)}</a> <${Leave} side=${s} last=${sides.length === 1} /></th>`)}</tr></thead>
          <tbody>
            <tr><th scope="row">State</th>${sides.map((s) => html`<td><${State} state=${s.shown} /></td>`)}</tr>
            ${facts.map((name) => html`<tr><th scope="row">${name}</th>${sides.map((s) => html`<td>${s.facts[name] ?? "–"}</td>`)}</tr>`)}
          </tbody>
          ${group(sides.every((s) => s.kind === "trials") ? "Hyperparameters" : "Hyperparameters of the best trial", hparams, (s, name) => shown(s.hparams[name]))}
          ${group("Configuration", given, (s, name) => shown(s.given[name]))}
        </table>
      </div>
      ${!hparams.length && !given.length && html`<p class="panel-body soft">Their hyperparameters and configurations are identical.</p>`}
    <//>
  `;
}

/** @param {{ side: Side, last: boolean }} props */
function Leave({ side, last }) {
  if (last) return null;
  const name = side.kind;
  return html`<${Button} kind="plain square" icon="close" aria-label=${`Remove ${titleOf(side)}`} onClick=${() => ask({ [name]: idsOf(name).filter((id) => id !== side.id).join(",") })} />`;
}
