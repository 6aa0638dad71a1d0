// The filters of an experiment's trials.
import { asked, field } from "../../lib/filters.js";
import { flat } from "../../lib/trials.js";
import { nameOf } from "../experiments_columns.js";
import { STATES } from "../experiments_filter.js";

/** @typedef {import("../../parts/filters.js").Filterable} Filterable */

/** @type {[string, string, string, string[]?][]} columns of every trial, their names, types and values */
const FIXED = [
  ["id", "Trial", "NUMBER"],
  ["state", "State", "TEXT", STATES],
  ["searcherMetricsVal", "Best value", "NUMBER"],
  ["totalBatchesProcessed", "Batches", "NUMBER"],
  ["restarts", "Restarts", "NUMBER"],
  ["startTime", "Started", "DATE"],
  ["endTime", "Ended", "DATE"],
  ["duration", "Duration in seconds", "NUMBER"],
  ["checkpointCount", "Checkpoints", "NUMBER"],
  ["checkpointSize", "Checkpoint size in bytes", "NUMBER"],
];
const STATISTICS = ["last", "min", "max", "mean"];
/** @type {Record<string, [string, string]>} */
const GROUPS = { validation: ["Validation metrics", "VALIDATIONS"], training: ["Training metrics", "TRAINING"] };

/** @param {string} column */
export const runNameOf = (column) => FIXED.find(([c]) => c === column)?.[1] ?? nameOf(column);

/** @param {string} column @param {string} group @param {string} location @param {string} type @param {string[]} [values] @returns {Filterable} */
const described = (column, group, location, type, values) => ({ column, name: runNameOf(column), group, location: `LOCATION_TYPE_${location}`, type: `COLUMN_TYPE_${type}`, values });

/** Return what conditions may be about. @param {any[]} trials @param {{ group: string, name: string }[]} metrics @returns {Filterable[]} */
export function filterable(trials, metrics) {
  const hparams = new Map(trials.flatMap((t) => Object.entries(flat(t.hparams))));
  return [
    ...FIXED.map(([column, , type, values]) => described(column, "Trial", "RUN", type, values)),
    ...[...hparams].map(([name, value]) => described(`hp.${name}`, "Hyperparameters", "RUN_HYPERPARAMETERS", typeof value === "number" ? "NUMBER" : "TEXT")),
    ...metrics.flatMap(({ group, name }) => {
      const [title, location] = GROUPS[group] ?? ["Other metrics", "CUSTOM_METRIC"];
      return STATISTICS.map((s) => described(`${group}.${name}.${s}`, title, location, "NUMBER"));
    }),
  ];
}

/** Return the filter that the API understands. @param {number} experiment @param {import("../../lib/filters.js").Group} group */
export function runsFilter(experiment, group) {
  const of = field("experimentId", "=", experiment, "LOCATION_TYPE_RUN", "COLUMN_TYPE_NUMBER");
  return JSON.stringify({ filterGroup: { kind: "group", conjunction: "and", children: group.of.length ? [of, asked(group)] : [of] }, showArchived: true });
}
