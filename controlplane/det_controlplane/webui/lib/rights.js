// What the user may do: pages offer nothing that the cluster would refuse. The cluster decides all the same.
import { get } from "./api.js";
import { signal } from "./view.js";

/** @typedef {{ admin: boolean, open: boolean, everywhere: Set<string>, places: Map<number, Set<string>> }} Held */

/** Without roles everybody may do the rest everywhere. */
const FOR_ADMINISTRATORS = new Set([
  "ASSIGN_ROLES", "UPDATE_AGENTS", "VIEW_MASTER_CONFIG", "UPDATE_MASTER_CONFIG", "MODIFY_GLOBAL_CONFIG_POLICIES", "MODIFY_RP_WORKSPACE_BINDINGS",
  "ADMINISTRATE_USER", "UPDATE_GROUP",
]);

const held = signal(/** @type {Held} */ ({ admin: false, open: true, everywhere: new Set(), places: new Map() }));

/** Ask what somebody may do who has just signed in. @param {{ admin: boolean }} who @param {boolean} withRoles */
export async function learn(who, withRoles) {
  const found = { admin: who.admin, open: !withRoles, everywhere: new Set(), places: new Map() };
  if (withRoles && !who.admin) {
    const { roles, assignments } = await get("/api/v1/permissions/summary", {}, { quiet: true });
    for (const given of assignments) {
      const role = roles.find((/** @type {any} */ r) => r.roleId === given.roleId);
      const rights = role.permissions.map((/** @type {any} */ p) => p.id.replace("PERMISSION_TYPE_", ""));
      for (const id of given.scopeWorkspaceIds) found.places.set(id, new Set([...(found.places.get(id) ?? []), ...rights]));
      if (given.scopeCluster) found.everywhere = new Set([...found.everywhere, ...rights]);
      if (given.scopeCluster && role.name === "ClusterAdmin") found.admin = true;
    }
  }
  held.value = found;
}

export const isAdmin = () => held.value.admin;

/** Tell whether roles decide; else everybody may do everything that is not for administrators. */
export const rolesDecide = () => !held.value.open;

/** @param {string} right @param {number} [workspace] without it in the whole cluster */
export function may(right, workspace = 0) {
  const { admin, open, everywhere, places } = held.value;
  return admin || (open ? !FOR_ADMINISTRATORS.has(right) : everywhere.has(right) || !!places.get(workspace)?.has(right));
}

/** @param {string} right */
export const maySomewhere = (right) => may(right) || [...held.value.places.values()].some((rights) => rights.has(right));
