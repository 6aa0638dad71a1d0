// Work of every type: experiments and tasks as the list of all work returns them, and the actions on them.
import { post } from "./api.js";
import { applyToMany, oneByOne } from "./bulk.js";
import { may } from "./rights.js";
import { link } from "./router.js";
import { end, KINDS, pathOf } from "./tasks.js";

/**
 * @typedef {{ jobId: string, entityId: string, type: string, name: string, state: string, userId: number, username: string, displayName: string, workspaceId: number, workspaceName: string, resourcePool: string, priority: number, allocatedSlots: number, progress: number | null, submissionTime: string, endTime: string | null, archived: boolean, unmanaged: boolean, noPause: boolean, exitStatus: string, costUsd?: number }} Work
 * @typedef {{ id: string, error: string }} Result by job
 * @typedef {{ id: string, name: string, icon?: string, danger?: boolean, done: string, undo?: string, sure?: string, fits: (work: Work) => boolean }} Action
 */

/** The types with the names of one. @type {Record<string, string>} */
export const TYPES = { TYPE_EXPERIMENT: "Experiment", ...Object.fromEntries(Object.entries(KINDS).map(([kind, name]) => [`TYPE_${kind.toUpperCase()}`, kind === "generic" ? "Generic task" : name])) };

/** @param {Work} w */
export const isExperiment = (w) => w.type === "TYPE_EXPERIMENT";

/** The kind of a task in addresses. @param {Work} w */
const kindOf = (w) => w.type.replace("TYPE_", "").toLowerCase();

/** The page of it. @param {Work} w */
export const pageOf = (w) => link(isExperiment(w) ? `/experiments/${w.entityId}` : `/tasks/${kindOf(w)}/${w.entityId}`);

/** @param {Work} w */
const state = (w) => w.state.replace("STATE_", "");

/** @param {Work} w */
export const isOver = (w) => ["COMPLETED", "CANCELED", "ERROR", "DELETING", "DELETE_FAILED"].includes(state(w));

/** Tell whether the user may change it. @param {Work} w */
export const mayChange = (w) => may(isExperiment(w) ? "UPDATE_EXPERIMENT" : "UPDATE_NSC", w.workspaceId);

/** Tell whether the user may change its place in the queue of a pool. @param {Work} w */
export const isQueued = (w) =>
  !isOver(w) && !w.unmanaged && !state(w).startsWith("STOPPING") && (isExperiment(w) || state(w) !== "PAUSED") && (hasPriorityRoute(w) ? mayChange(w) : may("UPDATE_EXPERIMENT", w.workspaceId));

/** Tell whether a route of its kind sets the priority: the queue's own route does it for experiments and generic tasks. @param {Work} w */
const hasPriorityRoute = (w) => !["TYPE_EXPERIMENT", "TYPE_GENERIC"].includes(w.type);

const ACTIVE = ["ACTIVE", "RUNNING", "QUEUED", "PULLING", "STARTING"];

/** @type {Action[]} */
export const ACTIONS = [
  { id: "pause", name: "Pause", icon: "pause", done: "Paused", undo: "activate", fits: (w) => ACTIVE.includes(state(w)) && !w.noPause && mayChange(w) },
  { id: "activate", name: "Resume", icon: "play", done: "Resumed", undo: "pause", fits: (w) => state(w) === "PAUSED" && mayChange(w) },
  {
    id: "kill", name: "Kill", icon: "close", danger: true, done: "Killed", fits: (w) => !isOver(w) && !w.unmanaged && mayChange(w),
    sure: "Running work stops immediately. Trials lose the work since their latest checkpoint, and generic tasks end with their child tasks.",
  },
];

/** Apply one action to work of any type. A refused request does not stop the others. @param {string} action @param {Work[]} rows @param {string} name @returns {Promise<Result[]>} */
export async function apply(action, rows, name) {
  const experiments = rows.filter(isExperiment);
  const jobs = new Map(experiments.map((w) => [Number(w.entityId), w.jobId]));
  const results = await applyToMany(action, [...jobs.keys()], { name });
  const done = results.map(({ id, error }) => ({ id: jobs.get(id) ?? "", error }));
  const tasks = rows.filter((w) => !isExperiment(w));
  return [...done, ...(await oneByOne(name, tasks, (w) => w.jobId, (w) => steer(action, w)))];
}

/** @param {string} action @param {Work} w a task */
const steer = (action, w) => (action === "kill" ? end({ kind: kindOf(w), id: w.entityId }) : post(`/api/v1/tasks/${w.entityId}/${action === "pause" ? "pause" : "unpause"}`, { taskId: w.entityId }));

/** Change priorities of queued work. @param {Work[]} rows @param {(work: Work) => number} to @param {string} name @returns {Promise<Result[]>} */
export const prioritize = (rows, to, name) => oneByOne(name, rows, (w) => w.jobId, (w) => (hasPriorityRoute(w) ? post(`${pathOf(kindOf(w))}/${w.entityId}/set_priority`, { priority: to(w) }) : update(w, { priority: to(w) })));

/** Move queued experiments to other pools. @param {Work[]} rows @param {(work: Work) => string} to @param {string} name @returns {Promise<Result[]>} */
export const move = (rows, to, name) => oneByOne(name, rows, (w) => w.jobId, (w) => update(w, { resourcePool: to(w) }));

/** @param {Work} w @param {object} edit */
const update = (w, edit) => post("/api/v1/job-queues", { updates: [{ jobId: w.jobId, ...edit }] });
