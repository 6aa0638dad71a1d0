// The job queue of a pool: the order, the reason why each job waits, and actions.
import { get, post } from "../lib/api.js";
import { counted, moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { may } from "../lib/rights.js";
import { go, link } from "../lib/router.js";
import { KINDS } from "../lib/tasks.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";
import { Button, Empty, Figures, Head, Loaded, Panel, Progress, State, Tabs } from "../parts/basic.js";
import { Choice, Line } from "../parts/fields.js";
import { Ask, attempt, Menu, tell } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";

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
  const latest = useRef(/** @type {any[]} */ ([]));
  const before = useRef(Promise.resolve());
  const jobs = useLive(
    async (signal) => {
      const told = await get("/api/v1/job-queues-v2", { resourcePool: pool.name, limit: most }, { signal });
      latest.current = told.jobs.map((/** @type {any} */ j) => j.full ?? { ...j.limited, hidden: true });
      return { rows: latest.current, total: told.pagination.total };
    },
    [pool.name],
    LIVE_MS,
    most,
  );
  /** @param {Plan} plan */
  const apply = async (plan) => {
    const planned = plan(latest.current);
    if (!planned) return;
    const { job, to, done, back } = planned;
    setRefused("");
    let refusal = "";
    await update(job, [to]).catch((e) => (refusal = refusalOf(job, e)));
    // The page shows the new order before it says that it is done.
    await jobs.reload();
    if (refusal) setRefused(refusal);
    else tell(done, { undo: back && (() => void change(() => ({ job, to: back, done: "Undone" }))) });
  };
  /** Change the order that is there after the changes before. @type {Change} */
  const change = (plan) => (before.current = before.current.then(() => apply(plan)));
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


/** @param {any[]} rows @param {any} pool @param {Change} change @param {(jobId: string) => void} manage @param {Order | null} order */
function columnsOf(rows, pool, change, manage, order) {
  const fair = pool.schedulerType === "SCHEDULER_TYPE_FAIR_SHARE";
  /** @param {any} j */
  const moves = (j) => {
    if (!may(j.type === "TYPE_EXPERIMENT" ? "UPDATE_EXPERIMENT" : "UPDATE_NSC", j.workspaceId)) return [];
    const at = rows.indexOf(j);
    /** @param {string} name @param {string} icon @param {(at: number) => number} to @param {string} done */
    const move = (name, icon, to, done) => order && rows[to(at)] && to(at) !== at && { name, icon, act: () => void change(moved(j.jobId, (_, from) => to(from), () => done)) };
    return [
      { name: "Manage job", icon: "gear", act: () => manage(j.jobId) },
      move("Move to top", "top", () => 0, "Moved to the top"),
      move("Move up", "up", (from) => from - 1, "Moved up"),
      move("Move down", "down", (from) => from + 1, "Moved down"),
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

/**
 * @typedef {(rows: any[]) => { job: any, to: Edit, done: string, back?: Edit } | null} Plan an edit of the queue as it is by then
 * @typedef {(plan: Plan) => Promise<void>} Change
 * @typedef {{ handle: (job: any) => any, rowProps: (job: any) => Record<string, any> }} Order
 */

/** Plan to bring a job to another place. @param {string} id @param {(rows: any[], from: number) => number} to @param {(job: any, beside: any) => string} done @returns {Plan} */
const moved = (id, to, done) => (rows) => {
  const from = rows.findIndex((j) => j.jobId === id);
  const place = to(rows, from);
  if (from < 0 || place === from || !rows[place]) return null;
  return { job: rows[from], to: placedAt(rows, from, place), done: done(rows[from], rows[place]), back: placeOf(rows, from) };
};

/** Return the place that a job has now, as a change that brings it back: beside a job of its priority, as it takes that of its neighbour. @param {any[]} rows @param {number} at */
function placeOf(rows, at) {
  const { priority } = rows[at];
  const before = rows.slice(0, at).findLast((j) => j.priority === priority);
  if (before) return { behindOf: before.jobId };
  const after = rows.slice(at + 1).find((j) => j.priority === priority);
  return after ? { aheadOf: after.jobId } : { priority };
}

/** Return the change that brings a job to another place. @param {any[]} rows @param {number} from @param {number} to */
const placedAt = (rows, from, to) => (to < from ? { aheadOf: rows[to].jobId } : { behindOf: rows[to].jobId });

/** Return the position of a job in its queue, as the command line numbers it: the first is 1. Some jobs have no position. @param {any} job */
const positionOf = (job) => (job.summary?.jobsAhead >= 0 ? job.summary.jobsAhead + 1 : "–");

const SLOP_PX = 4; // less is a tap
const EDGE_PX = 48; // where a page scrolls along
const SCROLL_PX = 12;

/** @param {any[]} rows in the order of the queue @param {Change} change @returns {Order} */
function useOrder(rows, change) {
  const drag = useRef({ id: "", to: "", x: 0, y: 0, moves: false });
  const [shown, show] = useState({ id: "", to: "" });
  const focused = useRef("");
  useEffect(() => {
    // A row that moves takes the focus of its handle along only if somebody gives it back.
    if (focused.current) document.getElementById(`handle-${focused.current}`)?.focus();
  }, [rows.map((j) => j.jobId).join()]);
  const at = (/** @type {string} */ id) => rows.findIndex((j) => j.jobId === id);
  /** @param {string} id @param {(rows: any[], from: number) => number} to */
  const move = (id, to) => void change(moved(id, to, (job, beside) => `${job.name || "Job"} moved to position ${positionOf(beside)}`));
  const drop = () => {
    drag.current = { id: "", to: "", x: 0, y: 0, moves: false };
    show({ id: "", to: "" });
  };
  /** @param {any} job @param {any} e */
  const take = (job, e) => {
    if (e.button || !e.isPrimary) return;
    const { left, width } = e.currentTarget.getBoundingClientRect();
    e.currentTarget.setPointerCapture(e.pointerId);
    drag.current = { id: job.jobId, to: "", x: left + width / 2, y: e.clientY, moves: false };
  };
  /** @param {PointerEvent} e */
  const pull = (e) => {
    const now = drag.current;
    if (!now.id || (!now.moves && Math.abs(e.clientY - now.y) < SLOP_PX)) return;
    now.moves = true;
    // A finger need not stay in the column of the handles.
    const row = document.elementFromPoint(now.x, e.clientY)?.closest("tr[data-job]");
    now.to = row?.getAttribute("data-job") ?? "";
    show({ id: now.id, to: now.to });
    scrollBy(0, e.clientY < EDGE_PX ? -SCROLL_PX : e.clientY > innerHeight - EDGE_PX ? SCROLL_PX : 0);
  };
  const release = () => {
    const { id, to, moves } = drag.current;
    drop();
    if (moves && to) move(id, (now) => now.findIndex((j) => j.jobId === to));
  };
  /** @param {any} job @param {KeyboardEvent} e */
  const press = (job, e) => {
    if (e.key === "Escape") drop();
    const step = { ArrowUp: -1, ArrowDown: 1 }[e.key];
    if (!step) return;
    e.preventDefault();
    focused.current = job.jobId;
    move(job.jobId, (_, from) => from + step);
  };
  /** @param {any} job */
  const handle = (job) => html`
    <span role="button" tabindex="0" class="handle number" id=${`handle-${job.jobId}`} aria-label=${`Position ${positionOf(job)}, ${job.name}: move with the arrow keys`}
      onPointerDown=${(/** @type {PointerEvent} */ e) => take(job, e)} onPointerMove=${pull} onPointerUp=${release} onPointerCancel=${drop}
      onBlur=${() => (focused.current = "")} onKeyDown=${(/** @type {KeyboardEvent} */ e) => press(job, e)}>${positionOf(job)}</span>
  `;
  /** @param {any} job */
  const rowProps = (job) => ({
    "data-job": job.jobId,
    class: shown.to === job.jobId && shown.id !== shown.to ? (at(shown.id) < at(shown.to) ? "drop-below" : "drop-above") : "",
  });
  return { handle, rowProps };
}

/** @typedef {Record<string, string | number | undefined>} Edit of one thing */

/** Send changes of a job; later ones see what those before them did. @param {any} job @param {Edit[]} changes */
const update = (job, changes) => post("/api/v1/job-queues", { updates: changes.map((c) => ({ jobId: job.jobId, ...c })) });

/** Say what the cluster refused in the words of the page: jobs are called by their names there. @param {any} job @param {unknown} e */
const refusalOf = (job, e) => /** @type {Error} */ (e).message.replace(new RegExp(`job ${job.jobId}`, "gi"), () => job.name || "this job");

/** @param {any} pool */
const sharesFairly = (pool) => pool.schedulerType === "SCHEDULER_TYPE_FAIR_SHARE";

/** @param {any} pool */
const hasPriorities = (pool) => pool.schedulerType === "SCHEDULER_TYPE_PRIORITY";

/**
 * Return the requested edit of a job and the edit that reverts it.
 * @param {any} job @param {any[]} rows @param {any} pool @param {any} to the pool that it shall be in @param {{ priority: number, weight: number, place: number }} asked
 * @returns {{ changes: Edit[], back: Edit[] }}
 */
function changesOf(job, rows, pool, to, asked) {
  /** @type {[Edit, Edit][]} */
  const pairs = [];
  const at = rows.indexOf(job);
  if (to !== pool) pairs.push([{ resourcePool: to.name }, { resourcePool: pool.name }]);
  if (sharesFairly(to) && asked.weight !== job.weight) pairs.push([{ weight: asked.weight }, { weight: job.weight }]);
  // Beside another job it takes the priority of that one.
  if (to === pool && asked.place !== at) pairs.push([placedAt(rows, at, asked.place), placeOf(rows, at)]);
  else if (hasPriorities(to) && asked.priority !== job.priority) pairs.push([{ priority: asked.priority }, { priority: job.priority }]);
  // Brought back in reverse: the priority or weight while the job is in the pool that knows it.
  return { changes: pairs.map(([change]) => change), back: pairs.map(([, back]) => back).reverse() };
}

/** @param {{ id: string, rows: any[], total: number, pool: any, pools: any[], onClose: () => void, onDone: () => Promise<void> }} props `rows` are the first of `total` */
function Manage({ id, rows, total, pool, pools, onClose, onDone }) {
  // The queue as it was when the dialog opened. It changes meanwhile.
  const [job] = useState(() => rows.find((j) => j.jobId === id));
  const [order] = useState(() => rows.filter((j) => j === job || j.summary.jobsAhead >= 0));
  const at = order.indexOf(job);
  const [priority, setPriority] = useState(String(job.priority ?? ""));
  const [weight, setWeight] = useState(String(job.weight ?? ""));
  const [place, setPlace] = useState(String(at + 1));
  const [into, setInto] = useState(pool.name);
  const to = pools.find((p) => p.name === into) ?? pool;
  const asked = { priority: Number(priority), weight: Number(weight), place: Number(place) - 1 };
  const fits = to !== pool || (Number.isInteger(asked.place) && !!order[asked.place]);
  const moved = to === pool && fits && asked.place !== at;
  const { changes, back } = fits ? changesOf(job, order, pool, to, asked) : { changes: [], back: [] };
  const act = async () => {
    try {
      await update(job, changes);
    } catch (e) {
      await onDone();
      throw new Error(refusalOf(job, e));
    }
    await onDone();
    tell(to === pool ? `Changed ${job.name}` : `Moved ${job.name} to ${to.name}`, { undo: () => void attempt(() => update(job, back).then(onDone), "Undone") });
    if (to !== pool) go(`/queue/${encodeURIComponent(to.name)}`);
  };
  return html`
    <${Ask} title=${`Manage ${job.name}`} act="Save" off=${!changes.length} onAct=${act} onClose=${onClose}>
      ${job.why && html`<p class="soft">Waiting: ${job.why}</p>`}
      ${hasPriorities(to) &&
      html`<${Line} label="Priority" hint=${moved ? `Same as the job next to it: ${order[asked.place].priority}` : "1 is the highest, 99 the lowest"} type="number" min="1" max="99" required disabled=${moved} value=${moved ? String(order[asked.place].priority) : priority} set=${setPriority} />`}
      ${sharesFairly(to) && html`<${Line} label="Weight" hint="A higher weight gets a larger share of the slots." type="number" min="0.01" step="any" required value=${weight} set=${setWeight} />`}
      ${hasPriorities(pool) &&
      order.length > 1 &&
      html`<${Line} label="Position in the queue" hint=${to === pool ? `1 is next. The queue has ${counted(Math.max(total, order.length), "job")}.` : "In the new pool, jobs of the same priority run in order of submission."} type="number" min="1" max=${order.length} step="1" required disabled=${to !== pool} value=${place} set=${setPlace} />`}
      ${pools.length > 1 &&
      html`<${Choice} label="Resource pool" value=${into} set=${setInto} of=${pools.map((p) => [p.name, p.name])} disabled=${job.type !== "TYPE_EXPERIMENT"}
        hint=${job.type === "TYPE_EXPERIMENT" ? "Running trials save a checkpoint, stop and wait in the new pool." : "Only experiments can move to another pool."} />`}
    <//>
  `;
}
