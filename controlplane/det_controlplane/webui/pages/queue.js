// The job queue of a pool: who is before whom, why each waits, and how to change it.
import { get, post } from "../lib/api.js";
import { ago, counted, moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { go, link } from "../lib/router.js";
import { reasonOf } from "../lib/why.js";
import { html, useState } from "../lib/view.js";
import { Empty, Field, Figures, Head, Loaded, Panel, Progress, State, Tabs } from "../parts/basic.js";
import { Ask, attempt, Menu } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { placeOf, useOrder } from "./queue_order.js";

const LIVE_MS = 3_000;
const WHY_FOR = 30;

/** @param {{ pool?: string }} props */
export function Page({ pool }) {
  const pools = useLive(async (signal) => (await get("/api/v1/resource-pools", {}, { signal })).resourcePools, [], LIVE_MS);
  return html`
    <${Head} title="Job queue" text="What runs next, and why the rest waits" />
    <${Loaded} of=${pools}>
      ${(/** @type {any[]} */ found) => {
        const chosen = found.find((p) => p.name === pool) ?? found.find((p) => p.defaultComputePool) ?? found[0];
        if (!chosen) return html`<div class="panel"><${Empty} title="No resource pools"><p>The configuration of the cluster names none that you may see.</p><//></div>`;
        return html`
          ${found.length > 1 && html`<${Tabs} label="Pools" tabs=${found.map((p) => ({ name: p.name, href: link(`/queue/${encodeURIComponent(p.name)}`), chosen: p === chosen }))} />`}
          <${Queue} key=${chosen.name} pool=${chosen} pools=${found} />
        `;
      }}
    <//>
  `;
}

/** @param {any[]} jobs @param {AbortSignal} signal */
async function withReasons(jobs, signal) {
  const asked = jobs.slice(0, WHY_FOR).map(async (job) => {
    if (!job.entityId || job.type !== "TYPE_EXPERIMENT" || job.summary.state !== "STATE_QUEUED") return job;
    const { reasons } = await get(`/api/v1/why/experiment/${job.entityId}`, {}, { signal }).catch(() => ({ reasons: [] }));
    return { ...job, why: reasonOf(reasons, "It") };
  });
  return [...(await Promise.all(asked)), ...jobs.slice(WHY_FOR)];
}

/** @param {{ pool: any, pools: any[] }} props */
function Queue({ pool, pools }) {
  const [managed, setManaged] = useState(/** @type {any} */ (null));
  const jobs = useLive(
    async (signal) => {
      const told = await get("/api/v1/job-queues-v2", { resourcePool: pool.name, limit: 1000 }, { signal });
      return withReasons(told.jobs.map((/** @type {any} */ j) => j.full ?? { ...j.limited, hidden: true }), signal);
    },
    [pool.name],
    LIVE_MS,
  );
  /** @param {any} job @param {any} change @param {string} done @param {any} [back] */
  const change = async (job, change, done, back) => {
    const update = (/** @type {any} */ to) => post("/api/v1/job-queues", { updates: [{ jobId: job.jobId, ...to }] });
    await attempt(() => update(change), done, back && (() => void attempt(() => update(back), "Undone").then(jobs.reload)));
    await jobs.reload();
  };
  const scheduler = { SCHEDULER_TYPE_PRIORITY: "by priority", SCHEDULER_TYPE_FAIR_SHARE: "by fair share", SCHEDULER_TYPE_ROUND_ROBIN: "in turns" }[/** @type {string} */ (pool.schedulerType)];
  return html`
    <div class="stack">
      <${Figures} of=${[
        ["Slots in use", html`${pool.slotsUsed} <span class="faint">of ${pool.slotsAvailable}</span>`, html`<${Progress} value=${pool.slotsAvailable ? pool.slotsUsed / pool.slotsAvailable : 0} />`],
        ["Running", pool.stats.scheduledCount],
        ["Waiting", pool.stats.queuedCount],
        ["Scheduled", scheduler ?? pool.schedulerType, pool.preemptible || pool.details?.priorityScheduler?.preemption ? "may pause lower priorities" : "running jobs are left alone"],
      ]} />
      <${Panel} flush>
        <${Loaded} of=${jobs}>
          ${(/** @type {any[]} */ rows) =>
            rows.length
              ? html`<${Jobs} rows=${rows} pool=${pool} change=${change} manage=${setManaged} />`
              : html`<${Empty} title="The queue is empty"><p>${counted(pool.slotsAvailable, "slot is", "slots are")} free in ${pool.name}.</p><//>`}
        <//>
      <//>
      ${managed && html`<${Manage} job=${managed} pool=${pool} pools=${pools} onClose=${() => setManaged(null)} onDone=${jobs.reload} />`}
    </div>
  `;
}

/** @param {any} j */
const nameOf = (j) => {
  if (j.hidden) return html`<span class="faint">Not yours to see</span>`;
  const name = html`${j.name || j.type.replace("TYPE_", "").toLowerCase()}`;
  return j.type === "TYPE_EXPERIMENT" && j.entityId ? html`<a href=${link(`/experiments/${j.entityId}`)}>${name}</a> <span class="faint number">${j.entityId}</span>` : name;
};

/** @param {{ rows: any[], pool: any, change: Change, manage: (job: any) => void }} props */
function Jobs({ rows, pool, change, manage }) {
  const order = useOrder(rows, change);
  // Other schedulers let nothing be moved, and one job has nowhere to go.
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

/** @typedef {import("./queue_order.js").Change} Change */

/** @param {any[]} rows @param {any} pool @param {Change} change @param {(job: any) => void} manage @param {import("./queue_order.js").Order | null} order */
function columnsOf(rows, pool, change, manage, order) {
  const fair = pool.schedulerType === "SCHEDULER_TYPE_FAIR_SHARE";
  /** @param {any} j */
  const moves = (j) => {
    const at = rows.indexOf(j);
    const back = placeOf(rows, at);
    return [
      { name: "Manage job", icon: "gear", act: () => manage(j) },
      order && at > 0 && { name: "Move to top", icon: "top", act: () => void change(j, { aheadOf: rows[0].jobId }, "Moved to the top", back) },
      order && at > 0 && { name: "Move up", icon: "up", act: () => void change(j, { aheadOf: rows[at - 1].jobId }, "Moved up", { behindOf: rows[at - 1].jobId }) },
      order && at < rows.length - 1 && { name: "Move down", icon: "down", act: () => void change(j, { behindOf: rows[at + 1].jobId }, "Moved down", { aheadOf: rows[at + 1].jobId }) },
    ];
  };
  return [
    { name: "#", right: true, cell: (/** @type {any} */ j) => (order && !j.hidden ? order.handle(j) : rows.indexOf(j) + 1) },
    { name: "Job", main: true, cell: nameOf },
    { name: "State", cell: (/** @type {any} */ j) => html`<${State} state=${j.summary.state} />` },
    { name: "Slots", right: true, title: "Slots that it has, of those that it asks for", cell: (/** @type {any} */ j) => `${j.allocatedSlots} / ${j.requestedSlots}` },
    { name: fair ? "Weight" : "Priority", right: true, cell: (/** @type {any} */ j) => (fair ? j.weight : j.priority) },
    { name: "User", cell: (/** @type {any} */ j) => j.username },
    { name: "Submitted", right: true, cell: (/** @type {any} */ j) => html`<span title=${moment(j.submissionTime)}>${ago(j.submissionTime)}</span>` },
    { name: "Why it waits", wrap: true, cell: (/** @type {any} */ j) => html`<span class="soft">${j.why ?? ""}</span>${j.expectedStart && html` <span class="nowrap" title=${moment(j.expectedStart)}>Starts in about ${about(j.expectedStart)}.</span>`}` },
    { name: "", right: true, cell: (/** @type {any} */ j) => !j.hidden && html`<${Menu} label=${`Actions on ${j.name}`} items=${moves(j)} kind="plain" />` },
  ];
}

/** @param {{ job: any, pool: any, pools: any[], onClose: () => void, onDone: () => Promise<void> }} props */
function Manage({ job, pool, pools, onClose, onDone }) {
  const fair = pool.schedulerType === "SCHEDULER_TYPE_FAIR_SHARE";
  const [priority, setPriority] = useState(String(job.priority ?? ""));
  const [weight, setWeight] = useState(String(job.weight ?? ""));
  const [to, setTo] = useState(pool.name);
  const act = async () => {
    const update = { jobId: job.jobId, ...(to !== pool.name ? { resourcePool: to } : fair ? { weight: Number(weight) } : { priority: Number(priority) }) };
    await post("/api/v1/job-queues", { updates: [update] });
    await onDone();
    if (to !== pool.name) go(`/queue/${encodeURIComponent(to)}`);
  };
  return html`
    <${Ask} title=${`Manage ${job.name}`} act="Save" onAct=${act} onClose=${onClose}>
      ${fair
        ? html`<${Field} label="Weight" hint="Its share grows with it."><input class="input" type="number" min="0.1" step="0.1" value=${weight} disabled=${to !== pool.name} onInput=${(/** @type {any} */ e) => setWeight(e.target.value)} /><//>`
        : html`<${Field} label="Priority" hint="1 is first, 99 is last."><input class="input" type="number" min="1" max="99" value=${priority} disabled=${to !== pool.name} onInput=${(/** @type {any} */ e) => setPriority(e.target.value)} /><//>`}
      ${pools.length > 1 &&
      html`
        <${Field} label="Resource pool" hint="In another pool it joins the end of the queue.">
          <select class="input" value=${to} onChange=${(/** @type {any} */ e) => setTo(e.target.value)}>${pools.map((p) => html`<option value=${p.name}>${p.name}</option>`)}</select>
        <//>
      `}
    <//>
  `;
}

