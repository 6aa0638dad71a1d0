// Jobs are dragged to another place of their queue, or moved by the arrow keys on their handle.
import { html, useEffect, useRef, useState } from "../lib/view.js";

/**
 * @typedef {(job: any, change: any, done: string, back?: any) => Promise<void>} Change
 * @typedef {{ handle: (job: any) => any, rowProps: (job: any) => Record<string, any> }} Order
 */

/** Return the place that a job has now, as a change that brings it back. @param {any[]} rows @param {number} at */
export function placeOf(rows, at) {
  if (rows[at - 1]) return { behindOf: rows[at - 1].jobId };
  return rows[at + 1] && { aheadOf: rows[at + 1].jobId };
}

/** @param {any[]} rows in the order of the queue @param {Change} change @returns {Order} */
export function useOrder(rows, change) {
  const [dragged, setDragged] = useState("");
  const [target, setTarget] = useState("");
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
    const beside = to < from ? { aheadOf: rows[to].jobId } : { behindOf: rows[to].jobId };
    await change(rows[from], beside, `${rows[from].name || "Job"} is number ${to + 1} of the queue`, placeOf(rows, from));
  };
  /** @param {any} job */
  const handle = (job) => html`
    <span role="button" tabindex="0" class="handle number" id=${`handle-${job.jobId}`} draggable="true" aria-label=${`Place ${at(job.jobId) + 1}, ${job.name}: arrow keys move it`}
      onDragStart=${(/** @type {DragEvent} */ e) => {
        e.dataTransfer?.setData("text/plain", job.jobId);
        setDragged(job.jobId);
      }}
      onDragEnd=${() => (setDragged(""), setTarget(""))}
      onBlur=${() => (focused.current = "")}
      onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
        const step = { ArrowUp: -1, ArrowDown: 1 }[e.key];
        if (!step) return;
        e.preventDefault();
        focused.current = job.jobId;
        void move(job.jobId, at(job.jobId) + step);
      }}>${at(job.jobId) + 1}</span>
  `;
  /** @param {any} job */
  const rowProps = (job) => ({
    class: target === job.jobId && dragged !== target ? (at(dragged) < at(target) ? "drop-below" : "drop-above") : "",
    onDragOver: (/** @type {DragEvent} */ e) => {
      if (!dragged) return;
      e.preventDefault();
      if (target !== job.jobId) setTarget(job.jobId);
    },
    onDrop: (/** @type {DragEvent} */ e) => {
      e.preventDefault();
      void move(dragged, at(job.jobId));
      setDragged("");
      setTarget("");
    },
  });
  return { handle, rowProps };
}
