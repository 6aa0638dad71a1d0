// One account: its user, rights and tokens.
import { get, post, send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { providers } from "../../lib/oidc.js";
import { link } from "../../lib/router.js";
import { shownName, user } from "../../lib/session.js";
import { KINDS } from "../../lib/tasks.js";
import { html, useState } from "../../lib/view.js";
import { Button, Loaded, Pairs, Panel } from "../../parts/basic.js";
import { Line, Tick } from "../../parts/fields.js";
import { Ask, attempt, Menu, tell } from "../../parts/overlay.js";
import { Sessions } from "../../parts/sessions.js";
import { Ago } from "../../parts/time.js";
import { AccessTokens } from "../../parts/tokens.js";
import { Area } from "./area.js";

/** @param {{ id: string }} props */
export function Page({ id }) {
  const found = useLive(
    async (signal) => {
      const [told, roles, groups] = await Promise.all([
        get(`/api/v1/users/${encodeURIComponent(id)}`, {}, { signal }),
        get(`/api/v1/roles/search/by-user/${encodeURIComponent(id)}`, {}, { signal }),
        post("/api/v1/groups/search", { userId: Number(id), limit: -1 }, { signal }),
      ]);
      return { person: told.user, roles: roles.roles, groups: groups.groups.map((/** @type {any} */ g) => g.group) };
    },
    [id],
    15_000,
  );
  return html`<${Loaded} of=${found} title="Person" list=${["/admin/people", "All people"]}>${(/** @type {any} */ data) => html`<${Person} ...${data} reload=${found.reload} />`}<//>`;
}

/** @param {{ person: any, roles: any[], groups: any[], reload: () => Promise<void> }} props */
function Person({ person, roles, groups, reload }) {
  const [open, setOpen] = useState("");
  const path = `/api/v1/users/${person.id}`;
  const own = person.id === user.value?.id;
  const activate = () => attempt(() => send("PATCH", path, { active: true }), `${shownName(person)} can sign in again`).then(reload);
  const more = [
    !person.remote && { name: "Set password", act: () => setOpen("password") },
    { name: "Sign out everywhere", act: () => setOpen("sign-out") },
    !own && person.active && { name: "Deactivate", danger: true, act: () => setOpen("deactivate") },
  ];
  const dialog = { person, path, onClose: () => setOpen(""), onDone: reload };
  return html`
    <${Area} at="/admin/people" title=${shownName(person)} text=${person.displayName ? person.username : " "}
      beside=${html`<span class=${`state ${person.active ? "green" : ""}`}>${person.active ? "Active" : "Deactivated"}</span>`}
      actions=${html`
        ${!person.active && html`<${Button} kind="primary" onClick=${activate}>Activate<//>`}
        <${Button} onClick=${() => setOpen("edit")}>Edit<//>
        <${Menu} label="More actions" items=${more} />
      `}>
      <div class="columns">
        <${Panel} title="Account">
          <${Pairs} of=${[
            ["Rights", person.admin ? "administrator" : "set by roles"],
            ["Sign-in", person.remote ? "identity provider" : "password"],
            ["Last sign-in", html`<${Ago} at=${person.lastAuthAt} never="never" />`],
            ["Groups", groups.length ? groups.map((g) => html`<a class="listed" href=${link(`/admin/groups/${g.groupId}`)}>${g.name}</a> `) : "none"],
          ]} />
        <//>
        <${Panel} title="Roles" actions=${html`<a class="small" href=${link("/admin/roles")}>All roles</a>`}><${Roles} of=${roles} /><//>
      </div>
      <${Sessions} key=${`sessions ${person.id}`} of=${person} />
      <${AccessTokens} key=${person.id} of=${person} />
    <//>
    ${open === "edit" && html`<${Edit} ...${dialog} />`}
    ${open === "password" && html`<${Password} ...${dialog} />`}
    ${open === "sign-out" && html`<${SignOut} ...${dialog} />`}
    ${open === "deactivate" && html`<${Deactivate} ...${dialog} />`}
  `;
}

/** @param {{ of: any[] }} props */
function Roles({ of }) {
  const { data: names } = useLive(async (signal) => {
    const { workspaces } = await get("/api/v1/workspaces", { limit: -1 }, { signal });
    return Object.fromEntries(workspaces.map((/** @type {any} */ w) => [w.id, w.name]));
  }, []);
  /** @param {any} a */
  const placeOf = ({ roleAssignment: { scopeCluster, scopeWorkspaceId: id } }) => (scopeCluster ? "the cluster" : (names?.[id] ?? `workspace ${id}`));
  const places = (/** @type {any} */ r) => [...new Set([...r.userRoleAssignments, ...r.groupRoleAssignments].map(placeOf))].join(", ");
  return of.length ? html`<${Pairs} of=${of.map((r) => [r.role.name, places(r)])} />` : html`<p class="soft">No roles, directly or through a group.</p>`;
}

/** @typedef {{ person: any, path: string, onClose: () => void, onDone: () => Promise<void> }} Props */

/** @param {Props} props */
function Edit({ person, path, onClose, onDone }) {
  const [username, setUsername] = useState(person.username);
  const [displayName, setDisplayName] = useState(person.displayName);
  const [admin, setAdmin] = useState(person.admin);
  const [remote, setRemote] = useState(person.remote);
  const elsewhere = useLive(providers, []);
  const now = { username: username.trim(), displayName, admin, remote };
  const changes = Object.fromEntries(Object.entries(now).filter(([key, value]) => value !== person[key]));
  const act = async () => {
    await send("PATCH", path, changes);
    await onDone();
  };
  return html`
    <${Ask} title=${`Edit ${shownName(person)}`} act="Save" off=${!Object.keys(changes).length} onAct=${act} onClose=${onClose}>
      <${Line} label="User name" value=${username} set=${setUsername} autocomplete="off" />
      <${Line} label="Display name" value=${displayName} set=${setDisplayName} autocomplete="off" />
      <${Tick} label="Administrator" hint="Full access to the cluster." value=${admin} set=${setAdmin} />
      ${(!!elsewhere.data?.length || person.remote) &&
      html`<${Tick} label="Sign in with the identity provider" hint="Deletes the password and ends sessions that use it." value=${remote} set=${setRemote} />`}
    <//>
  `;
}

/** @param {Props} props */
function Password({ person, path, onClose, onDone }) {
  const [password, setPassword] = useState("");
  const [currentPassword, setCurrent] = useState("");
  const [repeated, setRepeated] = useState("");
  const [endTokens, setEndTokens] = useState(false);
  const isOwn = person.id === user.value?.id;
  const act = async () => {
    await send("PATCH", path, { password, isHashed: false, endTokens, ...(isOwn && { currentPassword }) });
    tell(`Password of ${shownName(person)} changed`);
    await onDone();
  };
  return html`
    <${Ask} title=${`New password for ${shownName(person)}`} act="Set password" off=${!password || (isOwn && password !== repeated)} onAct=${act} onClose=${onClose}>
      <p class="soft">Ends all other sessions and access tokens of the account.</p>
      ${isOwn && html`<${Line} label="Current password" value=${currentPassword} set=${setCurrent} type="password" autocomplete="current-password" />`}
      <${Line} label="Password" value=${password} set=${setPassword} type="password" autocomplete="new-password" />
      ${isOwn && html`<${Line} label="Repeat the password" value=${repeated} set=${setRepeated} type="password" autocomplete="new-password" />`}
      <${Tick} label="Restrict running tasks" hint="Their tokens can then only send reports." value=${endTokens} set=${setEndTokens} />
    <//>
  `;
}

/** @param {Props} props */
const SignOut = ({ person, path, onClose, onDone }) => html`
  <${Ask} title=${`Sign ${shownName(person)} out everywhere?`} act="Sign out" danger onClose=${onClose}
    onAct=${async () => {
      await send("PATCH", path, { endTokens: true });
      tell(`${shownName(person)} is signed out`);
      await onDone();
    }}>
    <p class="soft">All sessions and access tokens end. Running work continues, and the user can sign in again.</p>
  <//>
`;

/** Return a sentence for each thing that came of the account's work. @param {any} told */
function outcomes(told) {
  const experiments = (/** @type {number[]} */ ids) => ids.map((id) => `experiment ${id}`);
  const tasks = (/** @type {any[]} */ of) => of.map((t) => `${KINDS[t.kind]} ${t.name || t.taskId}`);
  return Object.entries({
    Paused: [...experiments(told.pausedExperiments), ...tasks(told.pausedTasks)],
    Ended: tasks(told.endedTasks),
    "Still running": [...experiments(told.runningExperiments), ...tasks(told.runningTasks)],
  }).flatMap(([what, names]) => (names.length ? `${what}: ${names.join(", ")}.` : []));
}

/** @param {Props} props */
function Deactivate({ person, path, onClose, onDone }) {
  const [pauseWork, setPauseWork] = useState(false);
  const act = async () => {
    const told = await send("PATCH", path, { active: false, pauseWork });
    tell([`${shownName(person)} is deactivated.`, ...outcomes(told)].join(" "));
    await onDone();
  };
  return html`
    <${Ask} title=${`Deactivate ${shownName(person)}?`} act="Deactivate" danger onAct=${act} onClose=${onClose}>
      <p class="soft">The account can no longer sign in, and its sessions and access tokens end. Its experiments and other objects are kept. You can activate it again.</p>
      <${Tick} label="Pause its experiments and generic tasks, end its other tasks" hint="Other users can resume paused work. Notebooks, shells, commands and TensorBoards end." value=${pauseWork} set=${setPauseWork} />
    <//>
  `;
}
