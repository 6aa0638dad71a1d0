// Long listings: parts of a hundred rows, fetched when they come into sight, and fresh while they are.
import { usePoll } from "./live.js";
import { useRef, useState } from "./view.js";

const PART = 100;
const FRESH_MS = 6_000;

/**
 * @typedef {{ rows: any[], total: number }} Part
 * @typedef {{ total?: number, error?: Error, reload: () => Promise<void>, row: (index: number) => any, loaded: () => any[], onSight: (first: number, last: number) => void }} Paged
 */

/**
 * List what `fetched` gives, anew with other `keys`, and at once with another `mark`; rows of before stay until others are there.
 * @param {(offset: number, limit: number, signal: AbortSignal) => Promise<Part>} fetched
 * @param {unknown[]} keys
 * @param {{ every?: number | ((parts: Part[]) => number), mark?: unknown }} [how]
 * @returns {Paged}
 */
export function usePaged(fetched, keys, { every = FRESH_MS, mark } = {}) {
  const [, redraw] = useState(0);
  /** @type {{ current: { parts: Map<number, any[]>, shown: import("./live.js").Shown<any[]>, asked: Set<number>, sight: number[], old: boolean, ended: AbortController, total?: number }}} */
  const kept = useRef({ parts: new Map(), shown: {}, asked: new Set(), sight: [0, 0], old: false, ended: new AbortController() });
  const of = kept.current;
  const inSight = () => {
    const found = [];
    for (let part = Math.floor(of.sight[0] / PART); part * PART < Math.max(1, of.sight[1]); part++) found.push(part);
    return found;
  };
  /** @param {number[]} parts @param {AbortSignal} signal */
  const read = async (parts, signal) => {
    const told = await Promise.all(parts.map((part) => fetched(part * PART, PART, signal)));
    return parts.map((part, i) => ({ part, ...told[i] }));
  };
  /** Leave out what is fetched of before. */
  const drop = () => {
    of.ended.abort();
    Object.assign(of, { ended: new AbortController(), asked: new Set() });
  };
  /** @param {any[]} told */
  const put = (told) => {
    for (const { part, rows, total } of told) {
      of.parts.set(part, rows);
      of.total = total;
    }
  };
  const reload = usePoll(
    {
      fetched: (signal) => read(inSight(), signal),
      every,
      show: (change) => {
        const next = change(of.shown);
        if (next === of.shown) return;
        if (next.data && next.data !== of.shown.data) {
          // Where some rows changed, those out of sight may have moved into it: none is shown twice.
          drop();
          of.parts.clear();
          of.old = false;
          put(next.data);
        }
        of.shown = next;
        if (!next.error) missing();
        redraw((n) => n + 1);
      },
      begin: () => {
        drop();
        Object.assign(of, { shown: {}, old: true });
      },
    },
    keys,
    mark,
  );
  /** @param {number} part */
  const load = async (part) => {
    if (of.asked.has(part) || of.old) return;
    const { asked, ended } = of;
    asked.add(part);
    try {
      const told = await read([part], ended.signal);
      if (!ended.signal.aborted) put(told);
    } catch (e) {
      // The request for the visible rows shows its failure and is repeated.
      if (!ended.signal.aborted && /** @type {any} */ (e).passing) void reload();
      else if (!ended.signal.aborted) of.shown = { ...of.shown, error: /** @type {Error} */ (e) };
    }
    asked.delete(part);
    if (!ended.signal.aborted) redraw((n) => n + 1);
  };
  const missing = () => {
    for (const part of inSight()) if (!of.parts.has(part)) load(part);
  };
  return {
    total: of.total,
    error: of.shown.error,
    reload,
    row: (index) => of.parts.get(Math.floor(index / PART))?.[index % PART],
    loaded: () => [...of.parts.values()].flat(),
    onSight: (first, last) => {
      of.sight = [first, last];
      missing();
    },
  };
}

/**
 * Return the rows of chosen ids: those that were chosen before, and others that are there.
 * @param {Set<any>} ids @param {Map<any, any>} before @param {{ total?: number, row: (index: number) => any }} found @param {(row: any) => any} idOf
 */
export function rowsOf(ids, before, found, idOf) {
  const rows = new Map([...before].filter(([id]) => ids.has(id)));
  for (let i = 0; i < (found.total ?? 0) && rows.size < ids.size; i++) {
    const row = found.row(i);
    if (row && ids.has(idOf(row))) rows.set(idOf(row), row);
  }
  return rows;
}

/**
 * Return chosen rows as they are by now, where they are among those that are loaded.
 * @param {Map<any, any>} chosen @param {any[]} loaded @param {(row: any) => any} idOf
 */
export function renewed(chosen, loaded, idOf) {
  const rows = new Map(chosen);
  for (const row of loaded) if (rows.has(idOf(row))) rows.set(idOf(row), row);
  return rows;
}
