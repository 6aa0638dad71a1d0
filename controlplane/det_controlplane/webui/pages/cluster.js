// The cluster: pools, agents with their slots, rented machines and costs.
import { get, post } from "../lib/api.js";
import { counted, money } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { may } from "../lib/rights.js";
import { link } from "../lib/router.js";
import { cluster } from "../lib/session.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Figures, Head, Loaded, Panel, Progress, State } from "../parts/basic.js";
import { Line } from "../parts/fields.js";
import { Ask, attempt, Menu } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";
import { About, MoveAgent, NewPool, PoolMenu } from "./cluster_pools.js";
import { Costs, Rented } from "./cluster_rented.js";
import { Work } from "./cluster_work.js";

const LIVE_MS = 4_000;

/** @param {AbortSignal} signal */
async function all(signal) {
  const [pools, agents, rented, instances, work, month] = await Promise.all([
    get("/api/v1/resource-pools", {}, { signal }),
    get("/api/v1/agents", {}, { signal }),
    get("/api/v1/rented-pools", {}, { signal }).catch(() => ({ pools: [] })),
    get("/api/v1/instances", { limit: -1 }, { signal }).catch(() => ({ instances: [] })),
    get("/api/v1/tasks", {}, { signal }).catch(() => ({ allocationIdToSummary: {} })),
    seesMoney() ? get("/api/v1/costs/pools", { after: monthBegan() }, { signal }).catch(() => ({ costs: [] })) : { costs: [] },
  ]);
  return { month: month.costs, pools: pools.resourcePools, agents: agents.agents, rented: rented.pools, instances: instances.instances, work: Object.values(work.allocationIdToSummary) };
}

/** Tell whether what whole pools cost is shown to the user. */
const seesMoney = () => may("VIEW_CLUSTER_USAGE");

/** Months of bills begin at midnight of UTC. */
const monthBegan = () => `${new Date().toISOString().slice(0, 7)}-01T00:00:00Z`;

export function Page() {
  const found = useLive(all, [], LIVE_MS);
  return html`
    <${Head} title="Machines" text=${`Machines of each resource pool. A slot is one unit of compute: a GPU, or a CPU on machines without GPUs. Version ${cluster.value?.productVersion ?? ""}`}><${NewPool} reload=${found.reload} /><//>
    <${Loaded} of=${found}>${(/** @type {any} */ data) => html`<${Shown} ...${data} reload=${found.reload} />`}<//>
  `;
}

/** @param {{ pools: any[], agents: any[], rented: any[], instances: any[], work: any[], month: any[], reload: () => Promise<void> }} props */
function Shown({ pools, agents, rented, instances, work, month, reload }) {
  const slots = pools.reduce((sum, p) => sum + p.slotsAvailable, 0);
  const used = pools.reduce((sum, p) => sum + p.slotsUsed, 0);
  const away = agents.filter((a) => !a.enabled || a.draining).length;
  const hourly = instances.filter((i) => i.launchedAt && !i.endedAt).reduce((sum, i) => sum + i.priceUsdHour, 0);
  const spent = month.reduce((sum, c) => sum + c.costUsd, 0);
  const idle = month.reduce((sum, c) => sum + c.idleUsd, 0);
  return html`
    <div class="stack">
      <${Figures} of=${[
        ["Slots in use", html`${used} <span class="faint">of ${slots}</span>`, html`<${Progress} value=${slots ? used / slots : 0} what="in use" />`],
        ["Agents", agents.length, away ? `${away} out of service` : "all in service"],
        ["Rented machines", instances.length],
        ["Current cost", html`${money(hourly)} <span class="faint">per hour</span>`],
        seesMoney() && ["This month", money(spent), spent > 0 && `${money(idle)} idle`],
      ].filter(Boolean)} />
      ${pools.map((pool) => html`<${Pool} key=${pool.name} pool=${pool} pools=${pools} agents=${agents.filter((a) => a.resourcePools.includes(pool.name))} rented=${rented.find((r) => r.name === pool.name)} instances=${instances.filter((i) => i.pool === pool.name)} work=${work.filter((w) => w.resourcePool === pool.name && w.resources.length > 0)} month=${month.find((c) => c.pool === pool.name)} reload=${reload} />`)}
    </div>
  `;
}

/** @param {{ pool: any, pools: any[], agents: any[], rented: any, instances: any[], work: any[], month: any, reload: () => Promise<void> }} props */
function Pool({ pool, pools, agents, rented, instances, work, month, reload }) {
  const [holding, setHolding] = useState(false);
  const [reason, setReason] = useState("");
  const path = `/api/v1/rented-pools/${encodeURIComponent(pool.name)}`;
  const resume = () => attempt(() => post(`${path}/resume`), rented.spentBudget ? `${pool.name} is no longer on hold` : `${pool.name} rents machines again`).then(reload);
  const actions = html`
    <a class="button" href=${link(`/queue/${encodeURIComponent(pool.name)}`)}>Queue</a>
    ${rented && may("UPDATE_AGENTS") && (rented.hold ? html`<${Button} icon="play" onClick=${resume}>Resume<//>` : html`<${Button} icon="pause" onClick=${() => setHolding(true)}>Hold<//>`)}
    <${PoolMenu} pool=${pool} pools=${pools} reload=${reload} />
  `;
  return html`
    <${Panel} title=${pool.name} actions=${actions} flush>
      <div class="panel-body stack">
        <p class="soft">${pool.description || `${pool.slotsUsed} of ${counted(pool.slotsAvailable, "slot")} in use; ${counted(pool.stats.queuedCount, "queued job")}.`}</p>
        <${About} pool=${pool} />
        ${rented?.hold && html`<div key="hold" class="notice amber"><p>This pool rents no machines: ${rented.hold.sentence}</p></div>`}
        ${rented?.spentBudget && html`<div key="spent" class="notice amber"><p>This pool rents no machines: ${rented.spentBudget}</p></div>`}
        ${rented?.waiting.map((/** @type {any} */ w) => html`<div class="notice"><p>${counted(w.allocations, "queued run")}: ${w.sentence}</p></div>`)}
        ${rented && html`<${Costs} rented=${rented} month=${month} />`}
      </div>
      ${agents.length ? html`<${Agents} agents=${agents} pools=${pools} reload=${reload} />` : !rented && html`<${Empty} title="No agents yet"><p>Agents of this pool appear here after they connect.</p><//>`}
      ${work.length > 0 && html`<${Work} of=${work} />`}
      ${rented && html`<${Rented} rented=${rented} instances=${instances} reload=${reload} />`}
    <//>
    ${holding &&
    html`
      <${Ask} title=${`Hold ${pool.name}?`} act="Hold" onClose=${() => setHolding(false)}
        onAct=${async () => {
          await post(`${path}/hold`, { reason });
          await reload();
        }}>
        <p class="soft">The pool launches no machines until you resume it. Running machines keep running.</p>
        <${Line} label="Reason" value=${reason} set=${setReason} />
      <//>
    `}
  `;
}

/** @param {any} agent */
function slotsOf(agent) {
  const busy = new Set(Object.values(agent.containers).flatMap((/** @type {any} */ c) => c.devices.map((/** @type {any} */ d) => String(d.id))));
  return Object.values(agent.slots).map((/** @type {any} */ s) => ({ ...s, busy: s.container !== null || busy.has(String(s.device.id)) }));
}

/** @param {any} s */
const wordOf = (s) => (!s.enabled ? "disabled" : s.draining ? "draining" : s.busy ? "in use" : "free");

/** @param {{ agent: any }} props */
function Slots({ agent }) {
  const slots = slotsOf(agent);
  const told = `${slots.filter((s) => s.busy).length} of ${counted(slots.length, "slot")} in use`;
  return html`<span class="slots" role="img" aria-label=${told} title=${told}>${slots.map((s) => html`<span class=${`slot ${wordOf(s).replace(" ", "-")}`} title=${`Slot ${s.id}, ${s.device.brand}: ${wordOf(s)}`} />`)}</span>`;
}

/** @param {{ agents: any[], pools: any[], reload: () => Promise<void> }} props */
function Agents({ agents, pools, reload }) {
  const [moved, setMoved] = useState(/** @type {any} */ (null));
  const isStatic = pools.some((p) => p.type === "RESOURCE_POOL_TYPE_STATIC" && agents.some((a) => a.resourcePools.includes(p.name)));
  /** @param {any} a @param {string} what @param {string} done @param {any} [body] */
  const act = (a, what, done, body) => attempt(() => post(`/api/v1/agents/${encodeURIComponent(a.id)}/${what}`, body), done).then(reload);
  const columns = [
    { name: "Agent", main: true, cell: (/** @type {any} */ a) => a.id },
    { name: "State", cell: (/** @type {any} */ a) => html`<${State} state=${a.draining ? "STOPPING" : a.enabled ? "ACTIVE" : "PAUSED"} />${a.movesTo && html` <span class="soft">moves to ${a.movesTo}</span>`}` },
    { name: "Slots", cell: (/** @type {any} */ a) => html`<${Slots} agent=${a} />` },
    { name: "Containers", right: true, cell: (/** @type {any} */ a) => Object.keys(a.containers).length },
    { name: "Address", cell: (/** @type {any} */ a) => a.addresses.join(", ") },
    { name: "Connected", right: true, cell: (/** @type {any} */ a) => html`<${Ago} at=${a.registeredTime} />` },
    may("UPDATE_AGENTS") && {
      name: "", right: true,
      cell: (/** @type {any} */ a) => html`
        <${Menu} label=${`Actions on ${a.id}`} kind="plain" items=${[
          a.enabled && { name: "Drain: finish running work", act: () => void act(a, "disable", `${a.id} is draining`, { drain: true }) },
          a.enabled && { name: "Disable: stop running work", danger: true, act: () => void act(a, "disable", `${a.id} is disabled`, {}) },
          !a.enabled && { name: "Enable", act: () => void act(a, "enable", `${a.id} is enabled`) },
          isStatic && { name: "Move to another pool", act: () => setMoved(a) },
        ]} />
      `,
    },
  ];
  return html`
    <${Table} label="Agents" columns=${columns.filter(Boolean)} total=${agents.length} row=${(/** @type {number} */ i) => agents[i]} />
    ${moved && html`<${MoveAgent} agent=${moved} pools=${pools} reload=${reload} onClose=${() => setMoved(null)} />`}
  `;
}
