// The columns of the table of experiments.
import { metric, size, stateName } from "../lib/format.js";
import { link } from "../lib/router.js";
import { html } from "../lib/view.js";
import { Progress, State } from "../parts/basic.js";
import { DeadlineTime } from "../parts/deadline.js";
import { Ago, Span } from "../parts/time.js";

/** @typedef {import("../parts/table.js").Column} Column */

/** @param {any} e */
const named = (e) => html`
  <a href=${link(`/experiments/${e.id}`)} title=${e.description || e.name}>${e.name}</a>
  ${e.labels?.map((/** @type {string} */ l) => html` <span class="label cut">${l}</span>`)}
`;

/** @type {Record<string, Omit<Column, "cell"> & { cell: (experiment: any, row: any) => any }>} */
export const COLUMNS = {
  id: { name: "ID", right: true, sort: "id", cell: (e) => html`<a href=${link(`/experiments/${e.id}`)} tabindex="-1">${e.id}</a>` },
  name: { name: "Name", main: true, sort: "name", cell: named },
  state: { name: "State", sort: "state", cell: (e) => html`<${State} state=${e.state} />` },
  progress: { name: "Progress", sort: "progress", cell: (e) => (e.progress === null || e.progress === undefined || e.state === "STATE_COMPLETED" ? "" : html`<${Progress} value=${e.progress} />`) },
  searcherMetricsVal: { name: "Best", right: true, sort: "searcherMetricsVal", title: "Best value of the searcher metric", cell: (e) => html`<span title=${e.searcherMetric}>${metric(e.bestTrialSearcherMetric)}</span>` },
  searcherMetric: { name: "Metric", sort: "searcherMetric", cell: (e) => e.searcherMetric },
  searcherType: { name: "Searcher", sort: "searcherType", cell: (e) => e.searcherType },
  numTrials: { name: "Trials", right: true, sort: "numTrials", cell: (e) => e.numTrials },
  user: { name: "User", sort: "user", cell: (e) => e.displayName || e.username },
  projectName: { name: "Project", cell: (e) => `${e.workspaceName} / ${e.projectName}` },
  resourcePool: { name: "Pool", sort: "resourcePool", cell: (e) => e.resourcePool },
  startTime: { name: "Started", right: true, sort: "startTime", cell: (e) => html`<${Ago} at=${e.startTime} />` },
  endTime: { name: "Ended", right: true, sort: "endTime", cell: (e) => html`<${Ago} at=${e.endTime} />` },
  duration: { name: "Duration", right: true, sort: "duration", cell: (e) => html`<${Span} from=${e.startTime} to=${e.endTime} />` },
  checkpointSize: { name: "Checkpoints", right: true, sort: "checkpointSize", cell: (e) => `${e.checkpointCount} · ${size(e.checkpointSize)}` },
  deadline: { name: "Deadline", right: true, sort: "deadline", title: "Deadline, with the probability of an end in time", cell: (e) => e.deadline && html`<${DeadlineTime} of=${e.deadline} />` },
  forkedFrom: { name: "Forked from", right: true, sort: "forkedFrom", cell: (e) => e.forkedFrom && html`<a href=${link(`/experiments/${e.forkedFrom}`)}>${e.forkedFrom}</a>` },
};

/** @param {string} name @param {any[]} known */
export function cellOf(name, known) {
  const fixed = COLUMNS[name];
  if (fixed) return fixed;
  const title = known.find((c) => c.column === name)?.displayName || nameOf(name);
  return { name: title, right: true, sort: name, cell: (/** @type {any} */ e, /** @type {any} */ row) => metric(value(name, e, row)) };
}

/** @param {string} name @param {any[]} known @returns {Column} */
export function columnOf(name, known) {
  const found = cellOf(name, known);
  return { ...found, cell: (row) => found.cell(row.experiment, row) };
}

/** @param {string} name @param {any} e @param {any} row */
function value(name, e, row) {
  if (name.startsWith("hp.")) {
    const path = name.slice(3).split(".");
    let at = row.bestTrial?.hparams;
    for (const part of path) at = at?.[part];
    if (at !== undefined) return typeof at === "object" ? JSON.stringify(at) : at;
    let declared = e.config?.hyperparameters;
    for (const part of path) declared = declared?.[part];
    return declared?.val ?? (declared?.type ? stateName(declared.type).toLowerCase() : undefined);
  }
  return summary(name, row.bestTrial?.summaryMetrics);
}

/** Return a metric as `validation.loss.min` of what a trial has reported. @param {string} name @param {any} metrics by group and name */
export function summary(name, metrics) {
  const [group, ...rest] = name.split(".");
  const statistic = rest.pop() ?? "";
  return metrics?.[group === "training" ? "avg_metrics" : group === "validation" ? "validation_metrics" : group]?.[rest.join(".")]?.[statistic];
}

/** Return the name of a column that is not one of every experiment. @param {string} name */
export const nameOf = (name) => (name.startsWith("hp.") ? name.slice(3) : name.replace(/^([^.]+)\.(.*)\.(\w+)$/, "$2, $3 ($1)"));
