// The actions on experiments, and the states in which each is possible.
import { post, send } from "./api.js";
import { ended } from "./format.js";
import { keeps, may } from "./rights.js";

/** More curves and columns side by side tell nothing. */
export const MOST_COMPARED = 16;

/**
 * What one can do; `sure` is told before it is done, `about` on its button.
 * @typedef {{ id: string, name: string, icon?: string, danger?: boolean, done: string, undo?: string, sure?: string, about?: string, fits: (experiment: any) => boolean, right: string }} Action
 */

const state = (/** @type {any} */ e) => e.state.replace("STATE_", "");

/** @type {Action[]} */
export const ACTIONS = [
  {
    id: "pause", right: "UPDATE_EXPERIMENT", name: "Pause", icon: "pause", done: "Paused", undo: "activate", about: "Trials save a checkpoint and release their slots until you resume them.",
    fits: (e) => ["ACTIVE", "RUNNING", "QUEUED", "PULLING", "STARTING"].includes(state(e)) && !e.unmanaged,
  },
  { id: "activate", right: "UPDATE_EXPERIMENT", name: "Resume", icon: "play", done: "Resumed", undo: "pause", about: "Trials resume from their latest checkpoints when slots are free.", fits: (e) => state(e) === "PAUSED" && !e.unmanaged },
  {
    id: "cancel", right: "UPDATE_EXPERIMENT", name: "Stop", icon: "stop", done: "Stopping", fits: (e) => !ended(e.state) && !state(e).startsWith("STOPPING") && !e.unmanaged,
    sure: "Trials save a checkpoint, then stop. You can continue a stopped experiment.",
  },
  {
    id: "kill", right: "UPDATE_EXPERIMENT", name: "Kill", icon: "close", danger: true, done: "Killed", fits: (e) => !ended(e.state) && !e.unmanaged,
    sure: "Trials stop immediately. Work since their latest checkpoint is lost.",
  },
  { id: "archive", right: "UPDATE_EXPERIMENT_METADATA", name: "Archive", icon: "box", done: "Archived", undo: "unarchive", fits: (e) => ended(e.state) && !e.archived },
  { id: "unarchive", right: "UPDATE_EXPERIMENT_METADATA", name: "Unarchive", icon: "box", done: "Unarchived", undo: "archive", fits: (e) => e.archived },
  {
    id: "delete", right: "DELETE_EXPERIMENT", name: "Delete", icon: "close", danger: true, done: "Deleting", fits: (e) => ended(e.state),
    sure: "The experiment, its metrics, logs and checkpoints are deleted permanently.",
  },
];

/** Tell whether an action fits an experiment, and the user may do it. @param {Action} action @param {any} e */
export const offered = (action, e) => action.fits(e) && may(action.right, e.workspaceId) && (action.id !== "delete" || keeps(e));

/** @param {string} id of an action @param {number} experiment */
export function command(id, experiment) {
  const path = `/api/v1/experiments/${experiment}`;
  return id === "delete" ? send("DELETE", path) : post(`${path}/${id}`);
}
