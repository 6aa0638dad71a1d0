// Data that stays fresh: asked again while somebody looks, less often the longer nothing changes.
import { again, answered, asks, failed, join, leave, settled } from "./beat.js";
import { useCallback, useEffect, useRef, useState } from "./view.js";

const LONGEST_MS = 45_000;
const RETRY_MS = 4_000;

/**
 * @template T
 * @typedef {{ data: T | undefined, error: Error | undefined, reload: () => Promise<void> }} Live
 */

/**
 * Fetch data now, when `keys` change, and again each `every` milliseconds; 0 asks once, and a function decides by the data.
 *
 * While answers are the same, pauses grow to 45 seconds, or stay at `every` where that is longer; hidden tabs ask nothing.
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
  const reload = usePoll({ fetched, every, show: setState, begin: () => setState({}) }, keys, mark);
  return { data: state.data, error: state.error, reload };
}

/** @template T @typedef {{ data?: T, error?: Error }} Shown */
/**
 * @template T
 * @typedef {{ fetched: (signal: AbortSignal) => Promise<T>, every: number | ((data: T) => number), show: (change: (was: Shown<T>) => Shown<T>) => void, begin: () => void }} Asked
 */

/** Poll while the component is there, anew with other keys; gives what asks at once. @template T @param {Asked<T>} asked @param {unknown[]} keys @param {unknown} [mark] */
export function usePoll(asked, keys, mark) {
  const latest = useRef(asked);
  latest.current = asked;
  const now = useRef(/** @type {() => Promise<void>} */ (async () => {}));
  useEffect(() => {
    latest.current.begin();
    const poll = new Poll(latest);
    now.current = () => poll.now();
    poll.now();
    return () => poll.end();
  }, keys);
  const marked = useRef(mark);
  useEffect(() => {
    if (marked.current !== mark) now.current();
    marked.current = mark;
  }, [mark]);
  return useCallback(() => now.current(), []);
}

/** @template T */
class Poll {
  /** @param {{ current: Asked<T> }} latest */
  constructor(latest) {
    this.latest = latest;
    this.ended = new AbortController();
    this.seen = "";
    this.mark = "";
    this.pause = 0;
    this.turn = 0;
    this.asker = join(() => void this.now());
  }

  end() {
    this.ended.abort();
    leave(this.asker);
  }

  async now() {
    const turn = ++this.turn;
    const { signal } = this.ended;
    asks(this.asker);
    try {
      const data = await this.latest.current.fetched(signal);
      if (turn !== this.turn || signal.aborted) return;
      this.keep(data);
      answered(this.asker);
    } catch (e) {
      if (turn === this.turn && !signal.aborted) this.fail(e instanceof Error ? e : new Error(String(e)));
    } finally {
      settled(this.asker);
    }
  }

  /** @param {Error} error */
  fail(error) {
    // That nothing answers is told once for the whole page; a refusal, or that only this is not answered, where it was asked.
    const { passing } = /** @type {any} */ (error);
    if (passing && failed(this.asker, error)) return;
    this.latest.current.show((was) => ({ data: was.data, error }));
    this.next(Math.min(Math.max(2 * this.pause, RETRY_MS), LONGEST_MS));
    if (!passing) answered(this.asker);
  }

  /** @param {T} data */
  keep(data) {
    const { every, show } = this.latest.current;
    const wanted = typeof every === "function" ? every(data) : every;
    const text = JSON.stringify(data);
    // Where data have a revision, that tells whether anything happened: a count of the jobs ahead alone is no reason to hurry.
    const mark = /** @type {any} */ (data)?.revision ?? text;
    const happened = mark !== this.mark;
    this.mark = mark;
    if (text !== this.seen) {
      this.seen = text;
      show(() => ({ data }));
    } else show((was) => (was.error ? { data: was.data } : was));
    this.next(happened ? wanted : wanted && Math.max(wanted, Math.min(this.pause * 1.5, LONGEST_MS)));
  }

  /** @param {number} pause */
  next(pause) {
    this.pause = pause;
    again(this.asker, pause);
  }
}
