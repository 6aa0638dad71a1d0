// Managing one job of the queue: its priority or weight, its place and its pool, and the way back.
import { post } from "../lib/api.js";
import { counted } from "../lib/format.js";
import { go } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { Choice, Line } from "../parts/fields.js";
import { Ask, attempt, tell } from "../parts/overlay.js";
import { placedAt, placeOf } from "./queue_order.js";

/** @typedef {Record<string, string | number | undefined>} Change of one thing */

/** Send changes of a job; later ones see what those before them did. @param {any} job @param {Change[]} changes */
export const update = (job, changes) => post("/api/v1/job-queues", { updates: changes.map((c) => ({ jobId: job.jobId, ...c })) });

/** Say what the cluster refused in the words of the page: jobs are called by their names there. @param {any} job @param {unknown} e */
export const refusalOf = (job, e) => /** @type {Error} */ (e).message.replace(new RegExp(`job ${job.jobId}`, "gi"), () => job.name || "this job");

/** @param {any} pool */
const sharesFairly = (pool) => pool.schedulerType === "SCHEDULER_TYPE_FAIR_SHARE";

/** @param {any} pool */
const hasPriorities = (pool) => pool.schedulerType === "SCHEDULER_TYPE_PRIORITY";

/**
 * Return what changes a job as asked, and what brings it back.
 * @param {any} job @param {any[]} rows @param {any} pool @param {any} to the pool that it shall be in @param {{ priority: number, weight: number, place: number }} asked
 * @returns {{ changes: Change[], back: Change[] }}
 */
function changesOf(job, rows, pool, to, asked) {
  /** @type {[Change, Change][]} */
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
export function Manage({ id, rows, total, pool, pools, onClose, onDone }) {
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
    tell(to === pool ? `Changed ${job.name}` : `Moved ${job.name} to ${to.name}`, { undo: () => void attempt(() => update(job, back), "Undone").then(onDone) });
    await onDone();
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
