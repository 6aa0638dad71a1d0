// The rights of the user. Pages hide actions that the cluster would refuse; the cluster still checks each request.
import { get } from "./api.js";
import { signal } from "./view.js";

/** @typedef {{ id: number, admin: boolean, open: boolean, everywhere: Set<string>, places: Map<number, Set<string>>, own: Set<number> }} Held */

/** Without roles everybody may do the rest everywhere. */
const FOR_ADMINISTRATORS = new Set([
  "ASSIGN_ROLES", "UPDATE_AGENTS", "VIEW_MASTER_CONFIG", "UPDATE_MASTER_CONFIG", "MODIFY_GLOBAL_CONFIG_POLICIES", "MODIFY_RP_WORKSPACE_BINDINGS",
  "ADMINISTRATE_USER", "UPDATE_GROUP",
]);

const held = signal(/** @type {Held} */ ({ id: 0, admin: false, open: true, everywhere: new Set(), places: new Map(), own: new Set() }));

/** Ask what somebody may do who has just signed in. @param {{ id: number, admin: boolean }} who @param {boolean} withRoles */
export async function learn(who, withRoles) {
  const found = { id: who.id, admin: who.admin, open: !withRoles, everywhere: new Set(), places: new Map(), own: new Set() };
  if (!withRoles && !who.admin) {
    const { workspaces } = await get("/api/v1/workspaces", { userIds: [who.id], limit: -1, archived: false }, { quiet: true });
    for (const workspace of workspaces) found.own.add(workspace.id);
  }
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

/** Tell whether the user may set the config policies of a workspace: without roles, its owner may. @param {number} workspace */
export const mayDemand = (workspace) => (rolesDecide() ? may("MODIFY_WORKSPACE_CONFIG_POLICIES", workspace) : isAdmin() || held.value.own.has(workspace));

/** Tell whether there is any workspace of which that is true. */
export const mayDemandSomewhere = () => (rolesDecide() ? maySomewhere("MODIFY_WORKSPACE_CONFIG_POLICIES") : isAdmin() || held.value.own.size > 0);

/** Note that the user has made a workspace. @param {number} workspace */
export const made = (workspace) => (held.value = { ...held.value, own: new Set([...held.value.own, workspace]) });

/** @param {string} right */
export const maySomewhere = (right) => may(right) || [...held.value.places.values()].some((rights) => rights.has(right));

/** Tell whether the user may do what owners may: delete a thing, for one. @param {{ userId?: number, workspaceId?: number }} thing */
export const keeps = ({ userId, workspaceId }) => isAdmin() || userId === held.value.id || (rolesDecide() && may("ASSIGN_ROLES", workspaceId));

/** Parts of the administration, and who sees each. @type {[string, string, () => boolean][]} address, name, whether the user has something to do there */
export const AREAS = [
  ["/admin/people", "People", isAdmin],
  ["/admin/groups", "Groups", () => may("UPDATE_GROUP")],
  ["/admin/roles", "Roles", () => maySomewhere("ASSIGN_ROLES")],
  ["/admin/policies", "Config policies", () => may("MODIFY_GLOBAL_CONFIG_POLICIES") || mayDemandSomewhere()],
  ["/admin/tokens", "Access tokens", isAdmin],
  ["/admin/audit", "Audit log", isAdmin],
  ["/admin/message", "Message", isAdmin],
];

export const areas = () => AREAS.filter(([, , fits]) => fits());
