// What one can do with experiments, and to which of them.
import { post, send } from "./api.js";
import { ended } from "./format.js";

/**
 * @typedef {{ id: string, name: string, icon?: string, danger?: boolean, done: string, undo?: string, sure?: string, fits: (experiment: any) => boolean }} Action
 */

const state = (/** @type {any} */ e) => e.state.replace("STATE_", "");

/** @type {Action[]} */
export const ACTIONS = [
  { id: "pause", name: "Pause", icon: "pause", done: "Paused", undo: "activate", fits: (e) => ["ACTIVE", "RUNNING", "QUEUED", "PULLING", "STARTING"].includes(state(e)) && !e.unmanaged },
  { id: "activate", name: "Resume", icon: "play", done: "Resumed", undo: "pause", fits: (e) => state(e) === "PAUSED" && !e.unmanaged },
  {
    id: "cancel", name: "Stop", icon: "stop", done: "Stopping", fits: (e) => !ended(e.state) && !state(e).startsWith("STOPPING") && !e.unmanaged,
    sure: "Trials save a checkpoint, then end. A stopped experiment can be continued.",
  },
  {
    id: "kill", name: "Kill", icon: "close", danger: true, done: "Killed", fits: (e) => !ended(e.state) && !e.unmanaged,
    sure: "Trials end at once; what they did since their last checkpoint is lost.",
  },
  { id: "archive", name: "Archive", icon: "box", done: "Archived", undo: "unarchive", fits: (e) => ended(e.state) && !e.archived },
  { id: "unarchive", name: "Unarchive", icon: "box", done: "Unarchived", undo: "archive", fits: (e) => e.archived },
  {
    id: "delete", name: "Delete", icon: "close", danger: true, done: "Deleting", fits: (e) => ended(e.state),
    sure: "The experiment goes for good, with its metrics, logs and checkpoints.",
  },
];

/** @param {string} id of an action @param {number} experiment */
export function command(id, experiment) {
  const path = `/api/v1/experiments/${experiment}`;
  return id === "delete" ? send("DELETE", path) : post(`${path}/${id}`);
}

/** Do it to many; gives the ids that refused, with their reasons. @param {string} action @param {any[]} experiments */
export async function commandMany(action, experiments) {
  const told = await Promise.allSettled(experiments.map((e) => command(action, e.id)));
  return told.flatMap((t, i) => (t.status === "rejected" ? [`${experiments[i].id}: ${t.reason.message}`] : []));
}
