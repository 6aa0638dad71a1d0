// Data that stays fresh: asked again while somebody looks, less often the longer nothing changes.
import { useCallback, useEffect, useRef, useState } from "./view.js";

const LONGEST_MS = 30_000;
const RETRY_MS = 2_000;

/**
 * @template T
 * @typedef {{ data: T | undefined, error: Error | undefined, reload: () => Promise<void> }} Live
 */

/**
 * Fetch data now, when `keys` change, and again each `every` milliseconds; 0 asks once, and a function decides by the data.
 *
 * While answers are the same, pauses grow to half a minute, or stay at `every` where that is longer; hidden tabs ask nothing.
 * With another `mark`, as the revision of what it is about, it is fetched at once, and what was there stays meanwhile.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} fetched
 * @param {unknown[]} keys
 * @param {number | ((data: T) => number)} [every]
 * @param {unknown} [mark]
 * @returns {Live<T>}
 */
export function useLive(fetched, keys, every = 0, mark = undefined) {
  const [state, setState] = useState(/** @type {{ data?: T, error?: Error }} */ ({}));
  const latest = useRef({ fetched, every });
  latest.current = { fetched, every };
  const again = useRef(/** @type {() => Promise<void>} */ (async () => {}));
  useEffect(() => {
    setState({});
    const poll = new Poll(latest, setState);
    again.current = () => poll.now();
    poll.now();
    return () => poll.end();
  }, keys);
  const marked = useRef(mark);
  useEffect(() => {
    if (marked.current !== mark) again.current();
    marked.current = mark;
  }, [mark]);
  const reload = useCallback(() => again.current(), []);
  return { data: state.data, error: state.error, reload };
}

/** @template T */
class Poll {
  /**
   * @param {{ current: { fetched: (signal: AbortSignal) => Promise<T>, every: number | ((data: T) => number) } }} latest
   * @param {(change: (was: { data?: T, error?: Error }) => { data?: T, error?: Error }) => void} show
   */
  constructor(latest, show) {
    this.latest = latest;
    this.show = show;
    this.ended = new AbortController();
    this.seen = "";
    this.mark = "";
    this.pause = 0;
    this.timer = 0;
    this.turn = 0;
    this.onVisible = () => {
      if (!document.hidden && this.late) this.now();
    };
    this.late = false;
    document.addEventListener("visibilitychange", this.onVisible);
  }

  end() {
    this.ended.abort();
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onVisible);
  }

  async now() {
    clearTimeout(this.timer);
    this.late = false;
    const turn = ++this.turn;
    try {
      const data = await this.latest.current.fetched(this.ended.signal);
      if (turn !== this.turn || this.ended.signal.aborted) return;
      this.keep(data);
    } catch (e) {
      if (turn !== this.turn || this.ended.signal.aborted) return;
      const error = e instanceof Error ? e : new Error(String(e));
      this.show((was) => ({ data: was.data, error }));
      this.next(Math.min(Math.max(this.pause, RETRY_MS) * 2, LONGEST_MS));
    }
  }

  /** @param {T} data */
  keep(data) {
    const { every } = this.latest.current;
    const wanted = typeof every === "function" ? every(data) : every;
    const text = JSON.stringify(data);
    // Where data have a revision, that tells whether anything happened: a count of the jobs ahead alone is no reason to hurry.
    const mark = /** @type {any} */ (data)?.revision ?? text;
    const happened = mark !== this.mark;
    this.mark = mark;
    if (text !== this.seen) {
      this.seen = text;
      this.show(() => ({ data }));
    } else this.show((was) => (was.error ? { data: was.data } : was));
    this.next(happened ? wanted : wanted && Math.max(wanted, Math.min(this.pause * 1.5, LONGEST_MS)));
  }

  /** @param {number} pause */
  next(pause) {
    this.pause = pause;
    if (!pause) return;
    this.timer = setTimeout(() => {
      if (document.hidden) this.late = true;
      else this.now();
    }, pause);
  }
}
