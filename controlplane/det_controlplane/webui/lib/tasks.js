// Notebooks, shells, commands, TensorBoards and generic tasks alike.
import { ApiError, get, post } from "./api.js";
import { may } from "./rights.js";
import { link } from "./router.js";
import { user } from "./session.js";

/** @type {Record<string, string>} */
export const KINDS = { notebook: "Notebook", shell: "Shell", command: "Command", tensorboard: "TensorBoard", generic: "Task" };

/** @param {string} kind */
export const pathOf = (kind) => (kind === "generic" ? "/api/v1/generic-tasks" : `/api/v1/${kind}s`);

/** @param {any} task */
export const isOver = (task) => ["STATE_TERMINATED", "STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR"].includes(task.state);

/** Tell whether the user may pause and end a task. @param {any} task */
export const steers = (task) => may("UPDATE_NSC", task.workspaceId);

/** The tasks of a kind, newest first. @param {string} kind @param {number} limit @param {AbortSignal} signal @param {object} [of] more to ask for */
export async function listed(kind, limit, signal, of = {}) {
  const found = await get(pathOf(kind), { ...of, limit, sortBy: "SORT_BY_START_TIME", orderBy: "ORDER_BY_DESC" }, { signal });
  return found[kind === "generic" ? "tasks" : `${kind}s`].map((/** @type {any} */ task) => ({ ...task, kind }));
}

/** One task, of a generic one with its tree. @param {string} kind @param {string} id @param {AbortSignal} signal */
export async function one(kind, id, signal) {
  if (kind !== "generic") return { ...(await get(`${pathOf(kind)}/${encodeURIComponent(id)}`, {}, { signal }))[kind], kind, tree: [] };
  const found = (await get(pathOf(kind), { treeOf: id, limit: -1 }, { signal })).tasks.map((/** @type {any} */ task) => ({ ...task, kind }));
  const task = found.find((/** @type {any} */ t) => t.id === id);
  if (!task) throw new ApiError(404, `Generic task ${id} does not exist, or you have no access to its workspace.`);
  return { ...task, tree: inTrees(found) };
}

/** End a task; a generic one with all below it. @param {any} task */
export const end = (task) =>
  task.kind === "generic" ? post(`/api/v1/tasks/${task.id}/kill`, { taskId: task.id, killFromRoot: false }) : post(`${pathOf(task.kind)}/${task.id}/kill`);

/** What stands before the name of a task in a tree. @param {any} task */
export const branch = (task) => (task.depth ? "\u00a0".repeat(4 * (task.depth - 1)) + "\u21b3 " : "");

/** Each task below its parent, with its depth; the order is otherwise kept. @param {any[]} tasks */
export function inTrees(tasks) {
  const known = new Set(tasks.map((t) => t.id));
  /** @param {string} parent @param {number} depth @returns {any[]} */
  const below = (parent, depth) =>
    tasks
      .filter((t) => (known.has(t.parentId) ? t.parentId : "") === parent)
      .flatMap((t) => [{ ...t, depth }, ...below(t.id, depth + 1)]);
  return below("", 0);
}

/** Tell whether the user may open a terminal of a task: what opens a shell is told to its owner and to administrators. @param {any} task */
export const hasTerminal = (task) => task.kind === "shell" && task.state === "STATE_RUNNING" && (task.userId === user.value?.id || !!user.value?.admin);

/** The address of its terminal in the page. @param {any} task */
export const terminalOf = (task) => link(`/tasks/${task.id}/terminal`);

/** Return the state of a task in the words of every other page: generic tasks have it, others have an outcome. @param {any} task */
export const stateOf = ({ state, outcome }) => (state === "STATE_TERMINATED" && outcome) || state;

/** The address that a running task serves at; only those of this cluster. @param {any} task */
export function served(task) {
  const address = String(task.serviceAddress ?? "");
  return task.state === "STATE_RUNNING" && /^\/proxy\/[^/]/.test(address) ? address : "";
}
