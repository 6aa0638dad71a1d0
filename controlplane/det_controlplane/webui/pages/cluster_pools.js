// Pools of the database: create, change and delete them, and choose who may use a pool.
import { get, post, send } from "../lib/api.js";
import { counted } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { may } from "../lib/rights.js";
import { html, useState } from "../lib/view.js";
import { yaml } from "../lib/yaml.js";
import { Button } from "../parts/basic.js";
import { useChecked, Verdict } from "../parts/checked.js";
import { Choice, Code, Line, Tick } from "../parts/fields.js";
import { Ask, attempt, Menu } from "../parts/overlay.js";

const POOLS = "/api/v1/pools";
const NEW = "pool_name: \ndescription: \n";

/** @typedef {{ name: string, source: string, isLeaving: boolean, problem: string, type: string, access: { restricted: boolean, users: string[], groups: string[] } }} Pool */

/** @param {string} name */
const pathOf = (name) => `${POOLS}/${encodeURIComponent(name)}`;

const mayChange = () => may("UPDATE_MASTER_CONFIG");
const mayGrant = () => may("MODIFY_RP_WORKSPACE_BINDINGS");

/** Return the users of a pool as text. @param {Pool["access"]} access */
export function accessOf({ restricted, users, groups }) {
  if (!restricted) return "open to everybody";
  const names = [...groups.map((name) => `group ${name}`), ...users];
  return `restricted to ${names.join(", ") || "administrators"}`;
}

/** A line about a pool: the place of its settings, and its users. @param {{ pool: Pool }} props */
export const About = ({ pool }) => html`
  <p class="soft">${pool.source === "database" ? "Settings in the database" : "Settings in the cluster configuration"}; ${accessOf(pool.access)}.</p>
  ${pool.isLeaving && html`<div class="notice amber"><p>This pool takes no new work. It is deleted when its queued and running work has ended.</p></div>`}
  ${pool.problem && html`<div class="notice red"><p>This pool rents no machines: ${pool.problem}</p></div>`}
`;

/** @param {{ reload: () => Promise<void> }} props */
export function NewPool({ reload }) {
  const [open, setOpen] = useState(false);
  if (!mayChange()) return null;
  return html`
    <${Button} icon="plus" onClick=${() => setOpen(true)}>New pool<//>
    ${open && html`<${Settings} reload=${reload} onClose=${() => setOpen(false)} />`}
  `;
}

/** The menu of a pool for administrators. @param {{ pool: Pool, pools: Pool[], reload: () => Promise<void> }} props */
export function PoolMenu({ pool, pools, reload }) {
  const [open, setOpen] = useState("");
  const path = pathOf(pool.name);
  const stored = pool.source === "database";
  const close = () => setOpen("");
  /** @param {string} what @param {string} done */
  const act = (what, done) => attempt(() => post(`${path}/${what}`), done).then(reload);
  const items = [
    mayChange() && stored && !pool.isLeaving && { name: "Edit settings", act: () => setOpen("settings") },
    mayGrant() && { name: "Choose who may use it", act: () => setOpen("access") },
    mayChange() && !stored && { name: "Adopt: edit without a restart", act: () => void act("adopt", `${pool.name} is in the database now`) },
    mayChange() && stored && pool.isLeaving && { name: "Keep this pool", act: () => void act("keep", `${pool.name} stays`) },
    mayChange() && stored && !pool.isLeaving && { name: "Delete", danger: true, act: () => setOpen("delete") },
  ];
  return html`
    <${Menu} label=${`Actions on pool ${pool.name}`} items=${items} />
    ${open === "settings" && html`<${Settings} name=${pool.name} reload=${reload} onClose=${close} />`}
    ${open === "access" && html`<${Access} pool=${pool} reload=${reload} onClose=${close} />`}
    ${open === "delete" && html`<${Delete} pool=${pool} pools=${pools} reload=${reload} onClose=${close} />`}
  `;
}

/** Settings in YAML, which the cluster checks while they are typed. @param {{ name?: string, reload: () => Promise<void>, onClose: () => void }} props */
function Settings({ name, reload, onClose }) {
  const found = useLive(async (signal) => (name ? yaml((await get(pathOf(name), {}, { signal })).pool.settings) : NEW), [name ?? ""]);
  if (found.data === undefined) return null;
  return html`<${Editor} name=${name} was=${found.data} reload=${reload} onClose=${onClose} />`;
}

/** @param {{ name?: string, was: string, reload: () => Promise<void>, onClose: () => void }} props */
function Editor({ name, was, reload, onClose }) {
  const [config, setConfig] = useState(was);
  const [replaceMachines, setReplace] = useState(false);
  /** @param {any} more @param {any} [options] */
  const save = (more, options) => send(name ? "PUT" : "POST", name ? pathOf(name) : POOLS, { config, ...more }, options);
  const checked = useChecked(async (signal) => {
    const { pool } = await save({ validateOnly: true }, { signal, quiet: true });
    return [pool.offers ? `It can rent from ${counted(pool.offers, "offer")}.` : "", ...pool.notices].join(" ");
  }, [config]);
  return html`
    <${Ask} title=${name ? `Settings of ${name}` : "New pool"} act="Save" wide off=${!checked.fits} unsaved=${config !== was} onClose=${onClose}
      onAct=${async () => {
        await save({ replaceMachines });
        await reload();
      }}>
      <${Code} label="Settings, in YAML" hint="The keys of resource_pools in the cluster configuration." value=${config} set=${setConfig} bad=${!!checked.problems} />
      <${Verdict} of=${checked} />
      ${name && html`<${Tick} label="Replace rented machines" hint="Idle machines end now, busy ones after their work. Without it, new types, places and scripts apply to new machines." value=${replaceMachines} set=${setReplace} />`}
    <//>
  `;
}

/** @param {string} text */
const namesIn = (text) => text.split(/[,\s]+/).filter(Boolean);

/** @param {{ pool: Pool, reload: () => Promise<void>, onClose: () => void }} props */
function Access({ pool, reload, onClose }) {
  const { restricted, users, groups } = pool.access;
  const [who, setWho] = useState(restricted ? "some" : "all");
  const [someUsers, setUsers] = useState(users.join(", "));
  const [someGroups, setGroups] = useState(groups.join(", "));
  const path = `${pathOf(pool.name)}/access`;
  const save = async () => {
    if (who === "all") await send("DELETE", path);
    else {
      const wanted = { users: namesIn(someUsers), groups: namesIn(someGroups) };
      await post(path, wanted);
      const gone = { users: users.filter((n) => !wanted.users.includes(n)), groups: groups.filter((n) => !wanted.groups.includes(n)) };
      if (gone.users.length || gone.groups.length) await post(`${path}/revoke`, gone);
    }
    await reload();
  };
  return html`
    <${Ask} title=${`Who may use ${pool.name}?`} act="Save" onAct=${save} onClose=${onClose}>
      <${Choice} label="Access" value=${who} set=${setWho} of=${[["all", "Everybody"], ["some", "Only these users and groups"]]} />
      ${who === "some" && html`
        <${Line} label="Users" hint="Names with commas between them." value=${someUsers} set=${setUsers} />
        <${Line} label="Groups" hint="Names with commas between them." value=${someGroups} set=${setGroups} />
      `}
      <p class="soft">Administrators may use every pool. Queued and running work stays when its user loses access.</p>
    <//>
  `;
}

/** @param {{ pool: Pool, pools: Pool[], reload: () => Promise<void>, onClose: () => void }} props */
function Delete({ pool, pools, reload, onClose }) {
  const [drain, setDrain] = useState(false);
  const [to, setTo] = useState("");
  const others = pools.filter((p) => p.name !== pool.name && p.type === "RESOURCE_POOL_TYPE_STATIC" && !p.isLeaving);
  const remove = async () => {
    await send("DELETE", `${pathOf(pool.name)}?drain=${drain}&agentsTo=${encodeURIComponent(to)}`);
    await reload();
  };
  return html`
    <${Ask} title=${`Delete ${pool.name}?`} act="Delete" danger onAct=${remove} onClose=${onClose}>
      <${Tick} label="Wait for its work" hint="The pool takes no new work, and is deleted when its queued and running work has ended." value=${drain} set=${setDrain} />
      <${Choice} label="Move its agents to" value=${to} set=${setTo} of=${[["", "– (it has none)"], ...others.map((p) => [p.name, p.name])]} />
      <p class="soft">Its bindings, its budget and its list of users end with it.</p>
    <//>
  `;
}

/** @param {{ agent: any, pools: Pool[], reload: () => Promise<void>, onClose: () => void }} props */
export function MoveAgent({ agent, pools, reload, onClose }) {
  const others = pools.filter((p) => !agent.resourcePools.includes(p.name) && p.type === "RESOURCE_POOL_TYPE_STATIC" && !p.isLeaving);
  const [pool, setPool] = useState(others[0]?.name ?? "");
  const [preempt, setPreempt] = useState(false);
  return html`
    <${Ask} title=${`Move ${agent.id} to another pool?`} act="Move" off=${!pool} onClose=${onClose}
      onAct=${async () => {
        await post(`/api/v1/agents/${encodeURIComponent(agent.id)}/move`, { pool, preempt });
        await reload();
      }}>
      <${Choice} label="Pool" value=${pool} set=${setPool} of=${others.map((p) => [p.name, p.name])} />
      <${Tick} label="Preempt its work" hint="Running work saves checkpoints, stops and is queued again. Without it, the agent moves after its work." value=${preempt} set=${setPreempt} />
    <//>
  `;
}
