// Workspaces and projects that things can belong to.
import { get } from "./api.js";

/** @param {AbortSignal} [signal] @returns {Promise<{ id: number, name: string }[]>} those that are not archived, by name */
export const workspaces = async (signal) => (await get("/api/v1/workspaces", { limit: -1, archived: false, sortBy: "SORT_BY_NAME" }, { signal })).workspaces;

const BUILT_IN = 1;

/** Return what a form offers first: the built-in workspace where it may be chosen. @param {{ id: number, name: string }[]} of */
export const usual = (of) => of.find((w) => w.id === BUILT_IN) ?? of[0];

const EVERY = 0;

/** Return workspaces by name, each with its projects. @param {boolean} archived those too @param {AbortSignal} signal */
export async function withProjects(archived, signal) {
  const kept = archived ? { limit: -1 } : { limit: -1, archived: false };
  const [{ workspaces }, { projects }] = await Promise.all([
    get("/api/v1/workspaces", { ...kept, sortBy: "SORT_BY_NAME" }, { signal }),
    get(`/api/v1/workspaces/${EVERY}/projects`, kept, { signal }),
  ]);
  return workspaces.map((/** @type {any} */ w) => ({ ...w, projects: projects.filter((/** @type {any} */ p) => p.workspaceId === w.id) }));
}

/** Return the projects that experiments may be kept in. @param {AbortSignal} signal @returns {Promise<any[]>} */
export const everyProject = async (signal) => (await withProjects(false, signal)).flatMap((/** @type {any} */ w) => w.projects);

/** @param {any} project */
export const placeOf = (project) => `${project.workspaceName} / ${project.name}`;
