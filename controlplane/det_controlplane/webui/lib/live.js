// Data that stays fresh: polled while the page is visible, less often the longer it does not change. All parts of a
// page poll together. While the cluster does not answer, one request polls for all.
import { signal, useCallback, useEffect, useRef, useState } from "./view.js";

const RETRY_MS = 4_000;
const TOGETHER_MS = 400; // what is due that soon is asked along
const FIRST_MS = 2_000;
const LONGEST_MS = 45_000;
const EXPIRED = 401; // the status of a request without a session

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
    // The page shows once that the cluster does not answer. The part of the page shows refusals, and failures of its
    // own request.
    const { passing, status } = /** @type {any} */ (error);
    if (status === EXPIRED) return; // all requests are repeated after the user has signed in
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
    // If data has a revision, only a new revision counts as a change. A changed number of jobs ahead does not speed up
    // polling.
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

/** @typedef {{ due: number, failed: boolean, asking: number, heard: number, failing: boolean, run: () => void }} Asker `heard`: how many answers there were when it began to fail */

/** Why nothing answers, and since when what is shown may be old; null while the cluster answers. */
export const lost = signal(/** @type {{ error: Error, since: number } | null} */ (null));

/** @type {Set<Asker>} */
const askers = new Set();
let timer = 0;
let pause = FIRST_MS;
let next = Infinity; // when somebody tries whether the cluster answers again
let answers = 0;

document.addEventListener("visibilitychange", arm);
addEventListener("online", retry);

/** @param {() => void} run @returns {Asker} */
function join(run) {
  const asker = { due: Infinity, failed: false, asking: 0, heard: 0, failing: false, run };
  askers.add(asker);
  return asker;
}

/** @param {Asker} asker */
function leave(asker) {
  askers.delete(asker);
  arm();
}

/** Ask again later; 0: not by itself. @param {Asker} asker @param {number} ms */
function again(asker, ms) {
  asker.due = ms ? Date.now() + ms : Infinity;
  arm();
}

/** Note that a question begins; `settled` ends it. @param {Asker} asker */
function asks(asker) {
  asker.asking += 1;
  if (!asker.failing) asker.heard = answers;
}

/** Note that a question was answered, or that it failed. @param {Asker} asker */
function settled(asker) {
  asker.asking -= 1;
}

/** Note that the cluster answered: whatever waited for that asks now. @param {Asker} asker */
function answered(asker) {
  answers += 1;
  asker.failed = asker.failing = false;
  if (!lost.value) return;
  lost.value = null;
  pause = FIRST_MS;
  next = Infinity;
  for (const one of [...askers]) if (one.failed && !one.asking) one.run();
  arm();
}

/** Note that it did not, so that one question tries for all; false where others were answered meanwhile, and it is the asker's alone. @param {Asker} asker @param {Error} error */
function failed(asker, error) {
  asker.failing = true;
  asker.failed = answers === asker.heard;
  if (!asker.failed) return false;
  asker.due = Infinity;
  if (!lost.value) lost.value = { error, since: Date.now() };
  if (next === Infinity) later();
  arm();
  return true;
}

function later() {
  next = Date.now() + pause;
  pause = Math.min(2 * pause, LONGEST_MS);
}

/** Ask all that failed, now. */
export function retry() {
  for (const asker of [...askers]) if (asker.failed) asker.run();
}

/** Ask everything, now: what was refused without a session is answered in the next. */
export function askAll() {
  for (const asker of [...askers]) asker.run();
}

function arm() {
  clearTimeout(timer);
  if (document.hidden) return;
  const first = lost.value ? next : Math.min(...[...askers].map((a) => a.due));
  if (first < Infinity) timer = setTimeout(beat, Math.max(0, first - Date.now()));
}

function beat() {
  if (document.hidden) return;
  const due = [...askers].filter((a) => a.due <= Date.now() + TOGETHER_MS);
  if (lost.value) {
    const waiting = [...askers].filter((a) => a.failed);
    if (waiting.length) {
      later();
      // Only the failed request may have no answer, so another one is tried too.
      return go([...waiting.filter((a) => !a.asking).slice(0, 1), ...due.slice(0, 1)]);
    }
    lost.value = null; // all that failed has left the page
    next = Infinity;
    pause = FIRST_MS;
  }
  go(due);
}

/** @param {Asker[]} those */
function go(those) {
  for (const asker of those) {
    asker.due = Infinity; // until its answer says when
    asker.run();
  }
  arm();
}
