// The trials of an experiment as a table: state, best value, and what each was given.
import { counted, duration, metric, span } from "../../lib/format.js";
import { ask, link, place } from "../../lib/router.js";
import { flat, useTrials, varied } from "../../lib/trials.js";
import { html, useState } from "../../lib/view.js";
import { Button, Empty, Loaded, Panel, State } from "../../parts/basic.js";
import { Table } from "../../parts/table.js";

/** @param {any} trial @param {string} by */
function valueOf(trial, by) {
  if (by.startsWith("hp.")) return flat(trial.hparams)[by.slice(3)];
  return trial[by];
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
  return html`<${Loaded} of=${trials}>${(/** @type {any[]} */ rows) => (rows.length ? html`<${Rows} experiment=${experiment} rows=${rows} />` : html`<div class="panel"><${Empty} title="No trials yet"><p>The search creates them when it starts.</p><//></div>`)}<//>`;
}

/** @param {{ experiment: any, rows: any[] }} props */
function Rows({ experiment, rows }) {
  const [chosen, setChosen] = useState(/** @type {Set<number>} */ (new Set()));
  const smaller = experiment.config.searcher.smaller_is_better !== false;
  const sort = place.value.query.get("sort") ?? `searcherMetricValue=${smaller ? "asc" : "desc"}`;
  const [by, direction] = sort.split("=");
  const sign = direction === "desc" ? -1 : 1;
  const sorted = [...rows].sort((a, b) => {
    const [x, y] = [valueOf(a, by), valueOf(b, by)];
    const missing = [x, y].some((v) => v === null || v === undefined);
    return compared(x, y) * (missing ? 1 : sign) || a.id - b.id;
  });
  const columns = [
    { name: "Trial", right: true, sort: "id", cell: (/** @type {any} */ t) => html`<a href=${link(`/trials/${t.id}`)}>${t.id}</a>` },
    { name: "State", sort: "state", cell: (/** @type {any} */ t) => html`<${State} state=${t.state} />` },
    {
      name: experiment.searcherMetric || "Metric", right: true, sort: "searcherMetricValue",
      cell: (/** @type {any} */ t) => html`${t.id === experiment.bestTrialId && html`<span class="label best">best</span> `}${metric(t.searcherMetricValue)}`,
    },
    { name: "Batches", right: true, sort: "totalBatchesProcessed", cell: (/** @type {any} */ t) => metric(t.totalBatchesProcessed) },
    ...varied(rows).map((name) => ({ name, right: true, sort: `hp.${name}`, cell: (/** @type {any} */ t) => metric(flat(t.hparams)[name]) })),
    { name: "Duration", right: true, sort: "wallClockTime", cell: (/** @type {any} */ t) => (t.wallClockTime ? duration(t.wallClockTime) : span(t.startTime, t.endTime)) },
    { name: "Restarts", right: true, sort: "restarts", cell: (/** @type {any} */ t) => t.restarts },
  ];
  return html`
    <${Panel} flush><${Table} label="Trials" columns=${columns} total=${sorted.length} row=${(/** @type {number} */ i) => sorted[i]} sort=${sort} onSort=${(/** @type {string} */ s) => ask({ sort: s })} choice=${{ chosen, onChange: setChosen }} /><//>
    ${chosen.size > 0 &&
    html`
      <div class="chosen" role="group" aria-label="Chosen trials">
        <strong>${counted(chosen.size, "trial")} chosen</strong>
        <${Button} icon="columns" href=${link(`/compare?trials=${[...chosen].join(",")}`)}>Compare<//>
        <${Button} kind="plain square" icon="close" aria-label="Choose none" onClick=${() => setChosen(new Set())} />
      </div>
    `}
  `;
}
