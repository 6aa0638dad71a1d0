// Jobs are dragged to another place of their queue, or moved by the arrow keys on their handle.
import { html, useEffect, useRef, useState } from "../lib/view.js";

/**
 * @typedef {(job: any, change: any, done: string, back?: any) => Promise<void>} Change
 * @typedef {{ handle: (job: any) => any, rowProps: (job: any) => Record<string, any> }} Order
 */

/** Return the place that a job has now, as a change that brings it back: beside a job of its priority, as it takes that of its neighbour. @param {any[]} rows @param {number} at */
export function placeOf(rows, at) {
  const { priority } = rows[at];
  const before = rows.slice(0, at).findLast((j) => j.priority === priority);
  if (before) return { behindOf: before.jobId };
  const after = rows.slice(at + 1).find((j) => j.priority === priority);
  return after ? { aheadOf: after.jobId } : { priority };
}

/** Return the change that brings a job to another place. @param {any[]} rows @param {number} from @param {number} to */
export const placedAt = (rows, from, to) => (to < from ? { aheadOf: rows[to].jobId } : { behindOf: rows[to].jobId });

/** Return the position of a job in its queue, as the command line numbers it: the first is 1. Some jobs have no position. @param {any} job */
export const positionOf = (job) => (job.summary?.jobsAhead >= 0 ? job.summary.jobsAhead + 1 : "–");

const SLOP_PX = 4; // less is a tap
const EDGE_PX = 48; // where a page scrolls along
const SCROLL_PX = 12;

/** @param {any[]} rows in the order of the queue @param {Change} change @returns {Order} */
export function useOrder(rows, change) {
  const drag = useRef({ id: "", to: "", x: 0, y: 0, moves: false });
  const [shown, show] = useState({ id: "", to: "" });
  const focused = useRef("");
  useEffect(() => {
    // A row that moves takes the focus of its handle along only if somebody gives it back.
    if (focused.current) document.getElementById(`handle-${focused.current}`)?.focus();
  }, [rows.map((j) => j.jobId).join()]);
  const at = (/** @type {string} */ id) => rows.findIndex((j) => j.jobId === id);
  /** @param {string} id @param {number} to */
  const move = async (id, to) => {
    const from = at(id);
    if (from < 0 || to === from || !rows[to]) return;
    await change(rows[from], placedAt(rows, from, to), `${rows[from].name || "Job"} moved to position ${positionOf(rows[to])}`, placeOf(rows, from));
  };
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
    if (moves && to) void move(id, at(to));
  };
  /** @param {any} job @param {KeyboardEvent} e */
  const press = (job, e) => {
    if (e.key === "Escape") drop();
    const step = { ArrowUp: -1, ArrowDown: 1 }[e.key];
    if (!step) return;
    e.preventDefault();
    focused.current = job.jobId;
    void move(job.jobId, at(job.jobId) + step);
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
