// Roles of users and groups in the cluster and in workspaces.
import { get, post } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { isAdmin, may, rolesDecide } from "../../lib/rights.js";
import { ask, link, place } from "../../lib/router.js";
import { workspaces } from "../../lib/workspaces.js";
import { shownName } from "../../lib/session.js";
import { html, useState } from "../../lib/view.js";
import { Button, Empty, Loaded, Panel } from "../../parts/basic.js";
import { Choice } from "../../parts/fields.js";
import { Ask, attempt } from "../../parts/overlay.js";
import { Person, personNamed } from "../../parts/person.js";
import { Table } from "../../parts/table.js";
import { Area, NoPlace } from "./area.js";

/** @typedef {{ role: any, kind: "user" | "group", id: number, name: string, place: number }} Given */

const CLUSTER = 0;

/** @param {AbortSignal} signal */
async function everything(signal) {
  const [{ roles }, found, { users }, { groups }] = await Promise.all([
    post("/api/v1/roles/search", {}, { signal }),
    workspaces(signal),
    get("/api/v1/users", { limit: -1 }, { signal }),
    post("/api/v1/groups/search", { limit: -1 }, { signal }),
  ]);
  const told = await post("/api/v1/roles/search/by-ids", { roleIds: roles.map((/** @type {any} */ r) => r.roleId) }, { signal });
  const names = {
    user: new Map(users.map((/** @type {any} */ u) => [u.id, shownName(u)])),
    group: new Map(groups.map((/** @type {any} */ g) => [g.group.groupId, g.group.name])),
  };
  const given = told.roles.flatMap((/** @type {any} */ r) => [
    ...r.userRoleAssignments.map((/** @type {any} */ a) => assignment(r.role, "user", a.userId, a, names.user)),
    ...r.groupRoleAssignments.map((/** @type {any} */ a) => assignment(r.role, "group", a.groupId, a, names.group)),
  ]);
  return { roles, workspaces: found, groups: groups.map((/** @type {any} */ g) => g.group), given };
}

/** @param {any} role @param {"user" | "group"} kind @param {number} id @param {any} a @param {Map<number, string>} names @returns {Given} */
const assignment = (role, kind, id, a, names) => ({ role, kind, id, name: names.get(id) ?? `${kind} ${id}`, place: a.roleAssignment.scopeWorkspaceId ?? CLUSTER });

/** @param {Given} given */
const bodyOf = ({ role, kind, id, place: at }) => ({
  [`${kind}RoleAssignments`]: [{ [`${kind}Id`]: id, roleAssignment: { role: { roleId: role.roleId }, ...(at ? { scopeWorkspaceId: at } : { scopeCluster: true }) } }],
});

export function Page() {
  const found = useLive(everything, []);
  return html`
    <${Area} at="/admin/roles" text="Permissions of people and groups in the cluster and in workspaces">
      ${!rolesDecide() && html`<div class="notice amber"><p>Roles are not enforced until security.authz.type is rbac. Until then, all users can do everything except administration.</p></div>`}
      <${Loaded} of=${found}>${(/** @type {any} */ data) => html`<${Places} ...${data} reload=${found.reload} />`}<//>
    <//>
  `;
}

/** @param {{ roles: any[], workspaces: any[], groups: any[], given: Given[], reload: () => Promise<void> }} props */
function Places({ roles, workspaces, groups, given, reload }) {
  const [giving, setGiving] = useState(false);
  const own = workspaces.filter((w) => may("ASSIGN_ROLES", w.id));
  const places = /** @type {[string, string][]} */ ([...(isAdmin() ? [["0", "The whole cluster"]] : []), ...own.map((w) => [String(w.id), w.name])]);
  const asked = place.value.query.get("in") ?? "";
  const chosen = asked ? places.find(([id]) => id === asked) : places[0];
  if (!chosen) return html`<${NoPlace} at="/admin/roles" />`;
  const [at, name] = [Number(chosen[0]), chosen[1]];
  const rows = given.filter((g) => g.place === at);
  const fitting = roles.filter((r) => at === CLUSTER || r.scopeTypeMask.workspace);
  const take = async (/** @type {Given} */ g) => {
    const back = () => void attempt(() => post("/api/v1/roles/add-assignments", bodyOf(g)), "Undone").then(reload);
    await attempt(() => post("/api/v1/roles/remove-assignments", bodyOf(g)), `Removed ${g.role.name} from ${g.name}`, back);
    await reload();
  };
  const columns = [
    { name: "Name", main: true, cell: (/** @type {Given} */ g) => (isAdmin() ? html`<a href=${link(g.kind === "user" ? `/admin/people/${g.id}` : `/admin/groups/${g.id}`)}>${g.name}</a>` : g.name) },
    { name: "Kind", cell: (/** @type {Given} */ g) => (g.kind === "user" ? "person" : "group") },
    { name: "Role", cell: (/** @type {Given} */ g) => g.role.name },
    { name: "Permissions", wrap: true, cell: (/** @type {Given} */ g) => html`<span class="soft">${g.role.description}</span>` },
    { name: "", right: true, cell: (/** @type {Given} */ g) => html`<${Button} kind="danger" aria-label=${`Remove ${g.role.name} from ${g.name}`} onClick=${() => take(g)}>Remove<//>` },
  ];
  return html`
    <div class="row row-wide">
      <select class="input inline" aria-label="Scope" value=${String(at)} onChange=${(/** @type {any} */ e) => ask({ in: e.target.value })}>
        ${places.map(([id, shown]) => html`<option value=${id} selected=${id === String(at)}>${shown}</option>`)}
      </select>
      <${Button} kind="primary" icon="plus" onClick=${() => setGiving(true)}>Assign role<//>
    </div>
    <${Panel} flush>
      ${rows.length
        ? html`<${Table} label=${`Roles in ${name}`} columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} id=${(/** @type {Given} */ g) => `${g.role.roleId} ${g.kind} ${g.id}`} />`
        : html`<${Empty} title="No roles assigned here"><p>${at ? "Roles in the whole cluster also apply here." : "Administrators need no role. Assign Editor to a group of all users, or assign roles in single workspaces."}</p><//>`}
    <//>
    ${giving && html`<${Give} at=${at} place=${name} roles=${fitting} groups=${groups} onClose=${() => setGiving(false)} onDone=${reload} />`}
  `;
}

/** @param {{ at: number, place: string, roles: any[], groups: any[], onClose: () => void, onDone: () => Promise<void> }} props */
function Give({ at, place: name, roles, groups, onClose, onDone }) {
  const usual = roles.find((r) => r.name === "Editor") ?? roles[0];
  const [kind, setKind] = useState(/** @type {"user" | "group"} */ ("user"));
  const [person, setPerson] = useState("");
  const [group, setGroup] = useState(String(groups[0]?.groupId ?? ""));
  const [role, setRole] = useState(String(usual.roleId));
  const chosen = roles.find((r) => String(r.roleId) === role);
  const act = async () => {
    const id = kind === "user" ? (await personNamed(person)).id : Number(group);
    await post("/api/v1/roles/add-assignments", bodyOf({ role: chosen, kind, id, name: "", place: at }));
    await onDone();
  };
  return html`
    <${Ask} title=${`Assign role in ${at ? name : "the whole cluster"}`} act="Assign" off=${kind === "user" ? !person.trim() : !group} onAct=${act} onClose=${onClose}>
      ${groups.length > 0 && html`<${Choice} label="To" value=${kind} set=${setKind} of=${[["user", "a person"], ["group", "a group"]]} />`}
      ${kind === "user"
        ? html`<${Person} label="Person" value=${person} set=${setPerson} />`
        : html`<${Choice} label="Group" value=${group} set=${setGroup} of=${groups.map((g) => [String(g.groupId), g.name])} />`}
      <${Choice} label="Role" hint=${`Can ${chosen.description}.`} value=${role} set=${setRole} of=${roles.map((r) => [String(r.roleId), r.name])} />
    <//>
  `;
}
