// Parts of the administration, and who sees each.
import { isAdmin, may, mayDemandSomewhere, maySomewhere } from "./rights.js";

/** @type {[string, string, () => boolean][]} address, name, whether the user has something to do there */
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
