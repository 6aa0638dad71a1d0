// The table of an experiment's trials: states, metrics and hyperparameters.
import { first, post } from "../../lib/api.js";
import { MOST_COMPARED } from "../../lib/experiments.js";
import { filterOf, textOf } from "../../lib/filters.js";
import { counted, duration, metric } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { ask, link, place } from "../../lib/router.js";
import { flat, shownState, useTrials, varied } from "../../lib/trials.js";
import { html, useMemo, useState } from "../../lib/view.js";
import { Bones, Button, Empty, Failure, Loaded, Panel, State } from "../../parts/basic.js";
import { ColumnChoice } from "../../parts/columns.js";
import { Chips, FilterBuilder } from "../../parts/filters.js";
import { ChosenBar, Table } from "../../parts/table.js";
import { Span } from "../../parts/time.js";
import { nameOf, summary } from "../experiments_columns.js";
import { filterable, runsFilter, runNameOf } from "./trials_filter.js";

/** @typedef {import("../../lib/filters.js").Group} Group */

const STATISTICS = ["last", "min", "max", "mean"];

/** @param {any} trial @param {string} by @param {Map<number, any> | null | undefined} runs */
function valueOf(trial, by, runs) {
  if (by.startsWith("hp.")) return flat(trial.hparams)[by.slice(3)];
  if (by === "state") return shownState(trial);
  return by.includes(".") ? summary(by, runs?.get(trial.id)?.summaryMetrics) : trial[by];
}

/** @param {any} a @param {any} b */
function compared(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

/** @param {{ experiment: any }} props */
export function Trials({ experiment }) {
  const trials = useTrials(experiment);
  return html`<${Loaded} of=${trials}>${(/** @type {any[]} */ rows) => (rows.length ? html`<${Found} experiment=${experiment} rows=${rows} />` : html`<div class="panel"><${Empty} title="No trials yet"><p>The search creates them when it starts.</p><//></div>`)}<//>`;
}

/** Ask for the runs that a filter leaves. @param {number} experiment @param {Group} group @param {number} limit @param {AbortSignal} signal */
const search = (experiment, group, limit, signal) => post("/api/v1/runs", { projectId: 0, limit, filter: runsFilter(experiment, group) }, { signal });

/** @param {Group} group */
const keep = (group) => ask({ filter: textOf(group) });

/** @param {{ experiment: any, rows: any[] }} props */
function Found({ experiment, rows }) {
  const { query } = place.value;
  const { group, dropped } = filterOf(query);
  const [building, setBuilding] = useState(false);
  const [choosing, setChoosing] = useState(false);
  const more = (query.get("columns") ?? "").split(",").filter(Boolean);
  const text = textOf(group);
  // Further columns are read when the user shows them or filters by them.
  const runs = useLive(
    async (signal) => (text || more.length ? (await search(experiment.id, group, -1, signal)).runs.map((/** @type {any} */ r) => ({ id: r.id, summaryMetrics: r.summaryMetrics })) : null),
    [experiment.id, text, more.length > 0],
    0,
    experiment.revision,
  );
  const byId = useMemo(() => runs.data && new Map(runs.data.map((/** @type {any} */ r) => [r.id, r])), [runs.data]);
  const metrics = useLive(
    async (signal) => (await first("/api/v1/experiments/metrics-stream/metric-names", { ids: experiment.id, once: true }, { signal }))?.metricNames ?? [],
    [experiment.id],
    0,
    experiment.numTrials,
  );
  const shown = text ? rows.filter((t) => byId?.has(t.id)) : rows;
  const known = metrics.data ?? [];
  const offered = filterable(rows, known).filter((c) => STATISTICS.some((s) => c.column.endsWith(`.${s}`)) && !c.column.startsWith("hp."));
  return html`
    <div class="stack">
      <div class="row">
        <${Button} icon="plus" onClick=${() => setBuilding(true)}>Filter<//>
        ${offered.length > 0 && html`<${Button} icon="columns" onClick=${() => setChoosing(true)}>Columns<//>`}
        <span class="soft small" role="status">${text && runs.data ? `${shown.length.toLocaleString("en")} of ${counted(rows.length, "trial")}` : counted(rows.length, "trial")}</span>
      </div>
      <${Chips} of=${group} nameOf=${runNameOf} keep=${keep} open=${() => setBuilding(true)} />
      ${dropped > 0 && html`<div key="notice" class="notice" role="status"><p>A filter in the URL is invalid and was ignored.</p><${Button} onClick=${() => keep(group)}>Remove filter<//></div>`}
      <${Failure} error=${runs.error} retry=${runs.reload} />
      ${text && !runs.data && !runs.error
        ? html`<div class="panel"><${Bones} /></div>`
        : shown.length
          ? html`<${Rows} experiment=${experiment} rows=${shown} all=${rows} more=${more} runs=${byId} />`
          : html`<div class="panel"><${Empty} title="No trials match your filters."><p>The experiment has ${counted(rows.length, "trial")}.</p><${Button} onClick=${() => ask({ filter: "" })}>Show all trials<//><//></div>`}
      ${choosing && html`<${ColumnChoice} of=${offered} shown=${more} usual=${[]} set=${(/** @type {string[]} */ shown) => ask({ columns: shown.join(",") })} onClose=${() => setChoosing(false)} />`}
      ${building &&
      html`
        <${FilterBuilder} columns=${filterable(rows, known)} of=${group} what="trial" keep=${keep} onClose=${() => setBuilding(false)}
          count=${async (/** @type {Group} */ g, /** @type {AbortSignal} */ signal) => (await search(experiment.id, g, -2, signal)).pagination.total} />
      `}
    </div>
  `;
}

/** @param {{ experiment: any, rows: any[], all: any[], more: string[], runs: Map<number, any> | null | undefined }} props `all` tells which hyperparameters vary */
function Rows({ experiment, rows, all, more, runs }) {
  const [chosen, setChosen] = useState(/** @type {Set<number>} */ (new Set()));
  const smaller = experiment.config.searcher.smaller_is_better !== false;
  const sort = place.value.query.get("sort") ?? `searcherMetricValue=${smaller ? "asc" : "desc"}`;
  const [by, direction] = sort.split("=");
  const sign = direction === "desc" ? -1 : 1;
  const sorted = [...rows].sort((a, b) => {
    const [x, y] = [valueOf(a, by, runs), valueOf(b, by, runs)];
    const missing = [x, y].some((v) => v === null || v === undefined);
    return compared(x, y) * (missing ? 1 : sign) || a.id - b.id;
  });
  const columns = [
    { name: "Trial", right: true, sort: "id", cell: (/** @type {any} */ t) => html`<a href=${link(`/trials/${t.id}`)}>${t.id}</a>` },
    { name: "State", sort: "state", cell: (/** @type {any} */ t) => html`<${State} state=${shownState(t)} />` },
    {
      name: experiment.searcherMetric || "Metric", right: true, sort: "searcherMetricValue",
      cell: (/** @type {any} */ t) => html`${t.id === experiment.bestTrialId && html`<span class="label best">best</span> `}${metric(t.searcherMetricValue)}`,
    },
    ...more.map((name) => ({ name: nameOf(name), right: true, sort: name, cell: (/** @type {any} */ t) => metric(valueOf(t, name, runs)) })),
    { name: "Batches", right: true, sort: "totalBatchesProcessed", cell: (/** @type {any} */ t) => metric(t.totalBatchesProcessed) },
    ...varied(all).map((name) => ({ name, right: true, sort: `hp.${name}`, cell: (/** @type {any} */ t) => metric(flat(t.hparams)[name]) })),
    { name: "Duration", right: true, sort: "wallClockTime", cell: (/** @type {any} */ t) => (t.wallClockTime ? duration(t.wallClockTime) : html`<${Span} from=${t.startTime} to=${t.endTime} />`) },
    { name: "Restarts", right: true, sort: "restarts", cell: (/** @type {any} */ t) => t.restarts },
  ];
  const compare = [...chosen].slice(0, MOST_COMPARED);
  return html`
    <${Panel} flush><${Table} label="Trials" columns=${columns} total=${sorted.length} row=${(/** @type {number} */ i) => sorted[i]} sort=${sort} onSort=${(/** @type {string} */ s) => ask({ sort: s })} choice=${{ chosen, onChange: setChosen }} /><//>
    <${ChosenBar} count=${chosen.size} what="trial" clear=${() => setChosen(new Set())}>
      <${Button} icon="columns" href=${link(`/compare?trials=${compare.join(",")}`)}>Compare${chosen.size > compare.length ? ` the first ${compare.length}` : ""}<//>
    <//>
  `;
}
