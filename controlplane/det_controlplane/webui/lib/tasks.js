// Notebooks, shells, commands and TensorBoards alike.

/** @type {Record<string, string>} */
export const KINDS = { notebook: "Notebook", shell: "Shell", command: "Command", tensorboard: "TensorBoard" };

/** @param {any} task */
export const isOver = (task) => task.state === "STATE_TERMINATED";

/** The state of a task in the words of every other page. @param {any} task */
export const stateOf = (task) => (isOver(task) ? (/fail|error|status [1-9]/i.test(task.exitStatus ?? "") ? "STATE_ERROR" : "STATE_COMPLETED") : task.state);

/** The address that a running task serves at; only those of this cluster. @param {any} task */
export function served(task) {
  const address = String(task.serviceAddress ?? "");
  return task.state === "STATE_RUNNING" && /^\/proxy\/[^/]/.test(address) ? address : "";
}
