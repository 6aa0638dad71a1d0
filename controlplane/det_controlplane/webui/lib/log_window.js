// A window of a log: a few thousand lines of perhaps millions. Pages before and after it replace lines.
import { lines } from "./api.js";
import { useEffect, useRef, useState } from "./view.js";

const PAGE = 1_000;
const PART = 200;
const MOST = 6_000;
const AGAIN_MS = 3_000;
const TYPING_MS = 250;
const DRAW_MS = 150;
// Hosts that end a stream early do so at more than this.
const HEAVY = 500_000;
/** A time before every line. */
export const BEGINNING = "1970-01-01T00:00:00Z";
export const LEVELS = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/**
 * @typedef {{ id: string, timestamp: string, level: string, log: string, message: string, rankId: number | null }} Line
 * @typedef {{ text: string, regex: boolean, level: string, rank: string, at: string }} Asked `at` is a time, or empty for the end
 * @typedef {{ parts: Line[][], busy: boolean, atStart: boolean, atEnd: boolean, error?: Error }} Seen
 */

/** @type {Seen} */
const NOTHING = { parts: [], busy: true, atStart: false, atEnd: false };

/** @param {Asked} asked */
export function queryOf({ text, regex, level, rank }) {
  const levels = level ? LEVELS.slice(LEVELS.indexOf(level)).map((l) => `LOG_LEVEL_${l}`) : [];
  return { searchText: text, enableRegex: text && regex ? true : undefined, levels, rankIds: rank.match(/\d+/g) ?? [] };
}

/** @param {string} path that of the stream in the API @param {boolean} live @param {Asked} asked @returns {[Seen, LogWindow | null]} */
export function useLogWindow(path, live, asked) {
  const [seen, setSeen] = useState(NOTHING);
  const log = useRef(/** @type {LogWindow | null} */ (null));
  useEffect(() => {
    const made = new LogWindow(path, asked, live, setSeen);
    log.current = made;
    // The present lines stay until other lines arrive.
    setSeen((was) => ({ ...NOTHING, parts: was.parts }));
    made.begin();
    return () => made.end();
  }, [path, asked.text, asked.regex, asked.level, asked.rank, asked.at]);
  useEffect(() => log.current?.lives(live), [live]);
  return [seen, log.current];
}

export class LogWindow {
  /** @param {string} path @param {Asked} asked @param {boolean} live @param {(seen: Seen) => void} show */
  constructor(path, asked, live, show) {
    this.path = path;
    this.asked = asked;
    this.query = queryOf(asked);
    this.live = live;
    this.show = show;
    /** Whether the reader is at the end, and wants to stay there. */
    this.pinned = !asked.at;
    this.seen = NOTHING;
    this.ended = new AbortController();
    /** What is being read of the pages before and behind ends with this: a later answer would leave a gap. */
    this.reading = new AbortController();
    this.following = false;
    this.broke = false;
  }

  end() {
    this.ended.abort();
    this.reading.abort();
  }

  /** @param {Partial<Seen>} change */
  change(change) {
    this.seen = { ...this.seen, ...change };
    if (!this.ended.signal.aborted) this.show(this.seen);
  }

  /** Go to the end, from lines that it is not among. */
  anew() {
    this.pinned = true;
    this.change({ busy: true });
    return this.begin();
  }

  /** Read the end of the log, or what follows the time that was asked for. */
  async begin() {
    const { at } = this.asked;
    this.reading.abort();
    const { signal } = (this.reading = new AbortController());
    try {
      await pause(this.asked.text ? TYPING_MS : 0, signal);
      let found = at ? await this.first({ timestampAfter: justBefore(at) }) : [];
      // The log has no lines after that time, so show its end.
      const descending = !found.length;
      if (descending) found = await this.first({}, true);
      if (signal.aborted) return;
      const atStart = descending ? isWhole(found) : at === BEGINNING;
      this.change({ parts: inParts(found), busy: false, atStart, atEnd: descending || isWhole(found), error: undefined });
      this.follow();
    } catch (e) {
      if (!signal.aborted) this.change({ busy: false, error: /** @type {Error} */ (e) });
    }
  }

  /** Read the first page, again while it fails; of a search that takes long what was found is shown meanwhile. @param {import("./api.js").Query} query @param {boolean} [descending] */
  async first(query, descending = false) {
    const { signal } = this.reading;
    for (;;) {
      try {
        return await this.page(query, descending, (some) => this.change({ parts: inParts(some), error: undefined }));
      } catch (e) {
        if (signal.aborted || !(/** @type {any} */ (e).passing)) throw e;
        this.change({ error: /** @type {Error} */ (e) });
        await pause(AGAIN_MS, signal);
      }
    }
  }

  /** @param {import("./api.js").Query} query @param {boolean} descending @param {(some: Line[]) => void} [tell] @returns {Promise<Line[]>} */
  async page(query, descending, tell) {
    /** @type {Line[]} */
    const found = [];
    const ordered = () => (descending ? [...found].reverse() : [...found]);
    const orderBy = descending ? "ORDER_BY_DESC" : "ORDER_BY_ASC";
    let told = performance.now();
    for await (const line of lines(this.path, { ...this.query, ...query, limit: PAGE, orderBy }, { signal: this.reading.signal })) {
      found.push(line);
      if (tell && performance.now() - told > 2 * DRAW_MS) {
        tell(ordered());
        told = performance.now();
      }
    }
    return ordered();
  }

  earlier() {
    const first = Math.min(...this.seen.parts.flat().map((l) => Number(l.id)));
    if (this.seen.busy || this.seen.atStart || !Number.isFinite(first)) return;
    return this.extend(async () => {
      // By the order of arrival: lines may share a time.
      const found = this.fresh(await this.page({ afterId: first }, true));
      let parts = [...inParts(found), ...this.seen.parts];
      let { atEnd } = this.seen;
      while (count(parts) > MOST) {
        parts = parts.slice(0, -1);
        atEnd = false;
      }
      return { parts, atEnd, atStart: isWhole(found) };
    });
  }

  later() {
    if (this.seen.busy || this.seen.atEnd || !this.seen.parts.length) return;
    return this.extend(async () => {
      const found = this.fresh(await this.page({ afterId: this.last() }, false));
      return { ...this.behind(found), atEnd: isWhole(found) };
    });
  }

  /** @param {() => Promise<Partial<Seen>>} read */
  async extend(read) {
    const { signal } = this.reading;
    this.change({ busy: true });
    try {
      const found = await read();
      if (signal.aborted) return;
      this.change({ ...found, busy: false, error: undefined });
      this.follow();
    } catch (e) {
      if (signal.aborted) return;
      this.change({ error: /** @type {Error} */ (e) });
      // The page asks again when the present request has ended.
      await pause(AGAIN_MS, signal).catch(() => {});
      if (!signal.aborted) this.change({ busy: false });
    }
  }

  /** @param {Line[]} found */
  fresh(found) {
    const known = new Set(this.seen.parts.flat().map((l) => l.id));
    return found.filter((l) => !known.has(l.id));
  }

  /** Put lines behind the others, of which the first may go. @param {Line[]} found @returns {{ parts: Line[][], atStart: boolean }} */
  behind(found) {
    let parts = [...this.seen.parts];
    let { atStart } = this.seen;
    const open = parts.at(-1);
    const room = open && open.length < PART ? PART - open.length : 0;
    if (open && room) parts[parts.length - 1] = [...open, ...found.slice(0, room)];
    parts.push(...inParts(found.slice(room)));
    while (count(parts) > MOST) {
      parts = parts.slice(1);
      atStart = false;
    }
    return { parts, atStart };
  }

  /** Return the id of the last line; of a page that broke off in its middle, of one before all of that. @param {number} [back] */
  last(back = 0) {
    const ids = this.seen.parts.flat().map((l) => Number(l.id)).sort((a, b) => a - b);
    return ids[Math.max(0, ids.length - 1 - back)] ?? 0;
  }

  /** @param {boolean} live */
  lives(live) {
    this.live = live;
    this.follow();
  }

  /** Read on behind the last line while there may be more, also after the stream broke off; not while the tab is hidden. */
  async follow() {
    if (this.following || !this.live || !this.seen.atEnd) return;
    this.following = true;
    const { signal } = this.ended;
    try {
      for (let over = false; !over && this.seen.atEnd; ) {
        await visible(signal);
        // Lines before the end of the task are in the stream that begins after it.
        over = !this.live;
        await this.take(signal);
        // A host that holds no requests ends the stream early.
        if (!over) await pause(AGAIN_MS, signal);
      }
    } catch {
      // Somebody went elsewhere.
    }
    this.following = false;
  }

  /** Show what comes until the stream ends. @param {AbortSignal} signal */
  async take(signal) {
    /** @type {Line[]} */
    let waiting = [];
    let drawing = 0;
    const draw = () => {
      drawing = 0;
      const found = this.fresh(waiting);
      waiting = [];
      if (found.length) this.add(found);
    };
    const afterId = this.last(this.broke ? PAGE : 0);
    this.broke = true;
    try {
      for await (const line of lines(this.path, { ...this.query, follow: true, afterId }, { signal })) {
        waiting.push(line);
        drawing ||= setTimeout(draw, DRAW_MS);
        if (!this.seen.atEnd) return;
      }
      this.broke = false;
      if (this.seen.error) this.change({ error: undefined });
    } catch (e) {
      if (signal.aborted) throw e;
      this.change({ error: /** @type {Error} */ (e) });
    } finally {
      clearTimeout(drawing);
      if (!signal.aborted) draw();
    }
  }

  /** Add what came; where somebody reads elsewhere, only until the window is full. @param {Line[]} found */
  add(found) {
    if (!this.seen.atEnd) return;
    if (!this.pinned && count(this.seen.parts) + found.length > MOST) this.change({ atEnd: false });
    else this.change({ ...this.behind(found), error: undefined });
  }
}

/** @param {Line[][]} parts */
const count = (parts) => parts.reduce((sum, p) => sum + p.length, 0);

/** @param {Line[]} found @returns {Line[][]} */
const inParts = (found) => Array.from({ length: Math.ceil(found.length / PART) }, (_, i) => found.slice(i * PART, (i + 1) * PART));

/** Tell whether a page holds all there is in its direction. @param {Line[]} found */
const isWhole = (found) => found.length < PAGE && found.reduce((sum, l) => sum + l.log.length, 0) < HEAVY;

/** @param {string} at */
const justBefore = (at) => new Date(Date.parse(at) - 1).toISOString();

/**
 * Gather all lines that pass, as the command line shows them; `tell` hears how many there are so far.
 * @param {string} path @param {Asked} asked @param {AbortSignal} signal @param {(lines: number) => void} tell
 */
export async function gathered(path, asked, signal, tell) {
  const parts = [];
  let [total, last] = [0, 0];
  for (;;) {
    let [text, came, size] = ["", 0, 0];
    for await (const line of lines(path, { ...queryOf(asked), afterId: last || undefined }, { signal })) {
      text += line.message;
      last = Math.max(last, Number(line.id));
      if (++came % PAGE) continue;
      size += text.length;
      parts.push(text);
      text = "";
      tell(total + came);
    }
    parts.push(text);
    total += came;
    // Hosts with a limit end a stream early: there is more behind its last line then.
    if (!came || (came < PAGE && size + text.length < HEAVY)) return new Blob(parts, { type: "text/plain" });
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    if (!ms) return resolve();
    const stop = () => (clearTimeout(timer), reject(signal.reason));
    const timer = setTimeout(() => (signal.removeEventListener("abort", stop), resolve()), ms);
    signal.addEventListener("abort", stop, { once: true });
  });

/** @param {AbortSignal} signal @returns {Promise<void>} */
const visible = (signal) =>
  new Promise((resolve) => {
    if (!document.hidden) return resolve();
    document.addEventListener("visibilitychange", () => resolve(), { once: true, signal });
  });
