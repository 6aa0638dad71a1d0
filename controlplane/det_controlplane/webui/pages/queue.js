// The job queue of a pool: the order, the reason why each job waits, and actions.
import { get } from "../lib/api.js";
import { counted, moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { may } from "../lib/rights.js";
import { link } from "../lib/router.js";
import { KINDS } from "../lib/tasks.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Figures, Head, Loaded, Panel, Progress, State, Tabs } from "../parts/basic.js";
import { Menu, tell } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";
import { Manage, refusalOf, update } from "./queue_manage.js";
import { placedAt, placeOf, positionOf, useOrder } from "./queue_order.js";

const LIVE_MS = 3_000;
const PART = 500; // jobs that are listed first, and more each time that somebody asks

/** @param {{ pool?: string }} props */
export function Page({ pool }) {
  const pools = useLive(async (signal) => (await get("/api/v1/resource-pools", {}, { signal })).resourcePools, [], LIVE_MS);
  return html`
    <${Head} title="Job queue" text="Order of jobs in each pool and why jobs wait" />
    <${Loaded} of=${pools}>
      ${(/** @type {any[]} */ found) => {
        const chosen = found.find((p) => p.name === pool) ?? found.find((p) => p.defaultComputePool) ?? found[0];
        if (!chosen) return html`<div class="panel"><${Empty} title="No resource pools"><p>The cluster has no resource pools that you can see.</p><//></div>`;
        return html`
          ${found.length > 1 && html`<${Tabs} label="Pools" tabs=${found.map((p) => ({ name: p.name, href: link(`/queue/${encodeURIComponent(p.name)}`), chosen: p === chosen }))} />`}
          <${Queue} key=${chosen.name} pool=${chosen} pools=${found} />
        `;
      }}
    <//>
  `;
}

/** @param {{ pool: any, pools: any[] }} props */
function Queue({ pool, pools }) {
  const [managed, setManaged] = useState("");
  const [refused, setRefused] = useState("");
  const [most, setMost] = useState(PART);
  const jobs = useLive(
    async (signal) => {
      const told = await get("/api/v1/job-queues-v2", { resourcePool: pool.name, limit: most }, { signal });
      return { rows: told.jobs.map((/** @type {any} */ j) => j.full ?? { ...j.limited, hidden: true }), total: told.pagination.total };
    },
    [pool.name],
    LIVE_MS,
    most,
  );
  /** @type {Change} */
  const change = async (job, to, done, back) => {
    setRefused("");
    try {
      await update(job, [to]);
      tell(done, { undo: back && (() => void change(job, back, "Undone")) });
    } catch (e) {
      setRefused(refusalOf(job, e));
    }
    await jobs.reload();
  };
  return html`
    <div class="stack">
      <${Summary} pool=${pool} />
      ${refused &&
      html`<div class="notice red" role="alert"><p>${refused}</p><${Button} onClick=${() => setRefused("")}>Dismiss<//></div>`}
      <${Panel} flush>
        <${Loaded} of=${jobs}>
          ${(/** @type {{ rows: any[], total: number }} */ { rows, total }) => html`
            ${rows.length
              ? html`<${Jobs} rows=${rows} pool=${pool} change=${change} manage=${setManaged} />`
              : html`<${Empty} title="The queue is empty"><p>${counted(pool.slotsAvailable, "slot is", "slots are")} free in ${pool.name}.</p><${Button} href=${link("/experiments/new")}>New experiment<//><//>`}
            ${total > rows.length &&
            html`<div class="panel-body row"><span class="soft">Showing the first ${rows.length.toLocaleString("en")} of ${counted(total, "job")}.</span><${Button} onClick=${() => setMost(most + PART)}>Show more<//></div>`}
            ${managed && html`<${Manage} id=${managed} rows=${rows} total=${total} pool=${pool} pools=${pools} onClose=${() => setManaged("")} onDone=${jobs.reload} />`}
          `}
        <//>
      <//>
    </div>
  `;
}

/** @type {Record<string, string>} */
const SCHEDULERS = { SCHEDULER_TYPE_PRIORITY: "priority", SCHEDULER_TYPE_FAIR_SHARE: "fair share", SCHEDULER_TYPE_ROUND_ROBIN: "round robin" };

/** @param {{ pool: any }} props */
const Summary = ({ pool }) => html`
  <${Figures} of=${[
    ["Slots in use", html`${pool.slotsUsed} <span class="faint">of ${pool.slotsAvailable}</span>`, html`<${Progress} value=${pool.slotsAvailable ? pool.slotsUsed / pool.slotsAvailable : 0} what="in use" />`],
    ["Running jobs", pool.stats.scheduledCount],
    ["Queued jobs", pool.stats.queuedCount],
    ["Scheduling", SCHEDULERS[pool.schedulerType] ?? pool.schedulerType, pool.preemptible || pool.details?.priorityScheduler?.preemption ? "preempts lower priorities" : "no preemption"],
  ]} />
`;

/** @param {any} j */
const nameOf = (j) => {
  if (j.hidden) return html`<span class="faint">No access</span>`;
  const name = html`${j.name || j.type.replace("TYPE_", "").toLowerCase()}`;
  if (j.type === "TYPE_EXPERIMENT" && j.entityId) return html`<a href=${link(`/experiments/${j.entityId}`)}>${name}</a> <span class="faint number">${j.entityId}</span>`;
  const kind = j.type.replace("TYPE_", "").toLowerCase();
  return KINDS[kind] && j.entityId ? html`<a href=${link(`/tasks/${kind}/${j.entityId}`)}>${name}</a>` : name;
};

/** @param {{ rows: any[], pool: any, change: Change, manage: (jobId: string) => void }} props */
function Jobs({ rows, pool, change, manage }) {
  const order = useOrder(rows, change);
  // Other schedulers have no order that users can change, and a single job cannot move.
  const moves = pool.schedulerType === "SCHEDULER_TYPE_PRIORITY" && rows.length > 1;
  return html`
    <${Table} label=${`Jobs of pool ${pool.name}`} columns=${columnsOf(rows, pool, change, manage, moves ? order : null)} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]}
      id=${(/** @type {any} */ j) => j.jobId} rowProps=${moves ? order.rowProps : undefined} />
  `;
}

/** Say how long it is until then, no finer than such an estimate is. @param {string} time */
function about(time) {
  const minutes = Math.max(1, Math.round((Date.parse(time) - Date.now()) / 60_000));
  return minutes < 120 ? counted(minutes, "minute") : counted(Math.round(minutes / 60), "hour");
}

/** @param {string} [text] */
const sentence = (text) => (text ? `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "");

/** @typedef {import("./queue_order.js").Change} Change */

/** @param {any[]} rows @param {any} pool @param {Change} change @param {(jobId: string) => void} manage @param {import("./queue_order.js").Order | null} order */
function columnsOf(rows, pool, change, manage, order) {
  const fair = pool.schedulerType === "SCHEDULER_TYPE_FAIR_SHARE";
  /** @param {any} j */
  const moves = (j) => {
    if (!may(j.type === "TYPE_EXPERIMENT" ? "UPDATE_EXPERIMENT" : "UPDATE_NSC", j.workspaceId)) return [];
    const at = rows.indexOf(j);
    /** @param {string} name @param {string} icon @param {number} to @param {string} done */
    const move = (name, icon, to, done) => order && rows[to] && to !== at && { name, icon, act: () => void change(j, placedAt(rows, at, to), done, placeOf(rows, at)) };
    return [
      { name: "Manage job", icon: "gear", act: () => manage(j.jobId) },
      move("Move to top", "top", 0, "Moved to the top"),
      move("Move up", "up", at - 1, "Moved up"),
      move("Move down", "down", at + 1, "Moved down"),
    ];
  };
  return [
    { name: "#", right: true, cell: (/** @type {any} */ j) => (order && !j.hidden ? order.handle(j) : positionOf(j)) },
    { name: "Job", main: true, cell: nameOf },
    { name: "State", cell: (/** @type {any} */ j) => html`<${State} state=${j.summary.state.replace(/_SCHEDULED.*/, "_RUNNING")} />` },
    { name: "Wait reason", wrap: true, cell: (/** @type {any} */ j) => html`<span class="soft">${sentence(j.why)}</span>${j.expectedStart && html` <span class="nowrap" title=${moment(j.expectedStart)}>Starts in about ${about(j.expectedStart)}.</span>`}` },
    { name: "Slots", right: true, title: "Allocated slots / requested slots", cell: (/** @type {any} */ j) => `${j.allocatedSlots} / ${j.requestedSlots}` },
    { name: fair ? "Weight" : "Priority", right: true, cell: (/** @type {any} */ j) => (fair ? j.weight : j.priority) },
    { name: "User", cell: (/** @type {any} */ j) => j.username },
    { name: "Submitted", right: true, cell: (/** @type {any} */ j) => html`<${Ago} at=${j.submissionTime} />` },
    { name: "", right: true, cell: (/** @type {any} */ j) => !j.hidden && html`<${Menu} label=${`Actions on ${j.name}`} items=${moves(j)} kind="plain" />` },
  ];
}
