// Long listings: parts of a hundred rows, fetched when they come into sight, and fresh while they are.
import { useEffect, useRef, useState } from "./view.js";

const PART = 100;
const FRESH_MS = 6_000;

/**
 * @param {(offset: number, limit: number, signal: AbortSignal) => Promise<{ rows: any[], total: number }>} fetched
 * @param {unknown[]} keys
 */
export function usePaged(fetched, keys) {
  const parts = useRef(/** @type {Map<number, any[]>} */ (new Map()));
  const [total, setTotal] = useState(/** @type {number | undefined} */ (undefined));
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const [, redraw] = useState(0);
  const sight = useRef([0, 0]);
  const asked = useRef(/** @type {Set<number>} */ (new Set()));
  const latest = useRef(fetched);
  const signal = useRef(new AbortController());
  latest.current = fetched;

  /** @param {number} part */
  const load = async (part) => {
    if (asked.current.has(part)) return;
    asked.current.add(part);
    const { signal: mine } = signal.current;
    try {
      const told = await latest.current(part * PART, PART, mine);
      if (mine.aborted) return;
      parts.current.set(part, told.rows);
      setTotal(told.total);
      setError(undefined);
    } catch (e) {
      if (!mine.aborted) setError(/** @type {Error} */ (e));
    } finally {
      if (!mine.aborted) {
        asked.current.delete(part);
        redraw((n) => n + 1);
      }
    }
  };
  const inSight = () => {
    const found = [];
    for (let part = Math.floor(sight.current[0] / PART); part * PART < Math.max(1, sight.current[1]); part++) found.push(part);
    return found;
  };
  const reload = () => Promise.all(inSight().map(load));

  useEffect(() => {
    signal.current = new AbortController();
    asked.current = new Set();
    let first = true;
    // What was there stays until the answer is, so that typing does not flicker.
    load(0).then(() => {
      if (!first) return;
      for (const part of [...parts.current.keys()]) if (part) parts.current.delete(part);
      for (const part of inSight()) if (part) load(part);
      redraw((n) => n + 1);
    });
    const timer = setInterval(() => document.hidden || reload(), FRESH_MS);
    return () => {
      first = false;
      clearInterval(timer);
      signal.current.abort();
    };
  }, keys);

  return {
    total,
    error,
    reload,
    /** @param {number} index */
    row: (index) => parts.current.get(Math.floor(index / PART))?.[index % PART],
    /** @param {number} first @param {number} last */
    onSight: (first, last) => {
      sight.current = [first, last];
      for (const part of inSight()) if (!parts.current.has(part)) load(part);
    },
  };
}
