// Workspaces and projects that things can belong to.
import { get } from "./api.js";

/** @param {AbortSignal} [signal] @returns {Promise<{ id: number, name: string }[]>} those that are not archived, by name */
export const workspaces = async (signal) => (await get("/api/v1/workspaces", { limit: -1, archived: false, sortBy: "SORT_BY_NAME" }, { signal })).workspaces;

const BUILT_IN = 1;

/** Return what a form offers first: the built-in workspace where it may be chosen. @param {{ id: number, name: string }[]} of */
export const usual = (of) => of.find((w) => w.id === BUILT_IN) ?? of[0];

/** Return the projects that experiments may be kept in. @param {AbortSignal} signal */
export async function everyProject(signal) {
  const { workspaces } = await get("/api/v1/workspaces", { limit: -1, archived: false }, { signal });
  const told = await Promise.all(workspaces.map((/** @type {any} */ w) => get(`/api/v1/workspaces/${w.id}/projects`, { limit: -1, archived: false }, { signal })));
  return told.flatMap((t) => t.projects);
}

/** @param {any} project */
export const placeOf = (project) => `${project.workspaceName} / ${project.name}`;
