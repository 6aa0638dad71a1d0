// The filters of the table of experiments: its own fields, and any column.
import { asked as written, field } from "../lib/filters.js";
import { user } from "../lib/session.js";
import { cellOf } from "./experiments_columns.js";

/** @typedef {import("../lib/filters.js").Group} Group */
/** @typedef {{ text?: string, state?: string, mine?: boolean, archived?: boolean, more?: Group }} Asked */

export const STATES = ["ACTIVE", "PAUSED", "COMPLETED", "CANCELED", "ERROR"];
/** @type {Record<string, string>} */
const GROUPS = { EXPERIMENT: "Experiment", HYPERPARAMETERS: "Hyperparameters", VALIDATIONS: "Validation metrics", TRAINING: "Training metrics", CUSTOM_METRIC: "Other metrics" };
/** @type {Record<string, string[]>} */
const VALUES = { state: STATES };

/** Return the filter that the API understands. @param {Asked} asked */
export function filterText({ text, state, mine, archived, more }) {
  const children = more?.of.length ? [written(more)] : [];
  if (text) children.push(field("name", "contains", text));
  if (state) children.push(field("state", "=", state));
  if (mine) children.push(field("user", "=", user.value?.username ?? ""));
  return JSON.stringify({ filterGroup: { kind: "group", conjunction: "and", children }, showArchived: !!archived });
}

/** Return the group of a column in dialogs. @param {{ location: string }} column */
export const groupOf = ({ location }) => GROUPS[location.replace("LOCATION_TYPE_", "")] ?? "Other";

/** Return what conditions may be about. @param {any[]} known columns as the API tells them @returns {import("../parts/filters.js").Filterable[]} */
export const filterable = (known) =>
  known.map((c) => ({ column: c.column, name: cellOf(c.column, known).name, group: groupOf(c), location: c.location, type: c.type, values: VALUES[c.column] }));
