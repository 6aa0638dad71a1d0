// Workspaces that things can belong to.
import { get } from "./api.js";

/** @param {AbortSignal} [signal] @returns {Promise<{ id: number, name: string }[]>} those that are not archived, by name */
export const workspaces = async (signal) => (await get("/api/v1/workspaces", { archived: false, sortBy: "SORT_BY_NAME" }, { signal })).workspaces;
