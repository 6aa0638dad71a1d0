// Log lines of a task: the latest first of all, then what comes; text, level and rank narrow them down.
import { lines } from "../lib/api.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";
import { Button, Empty, Failure, Search } from "./basic.js";

const PAGE = 1000;
const MOST = 10_000;
const LEVELS = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
const AGAIN_MS = 3_000;

/** @typedef {{ id: string, timestamp: string, level: string, log: string, rankId: number | null }} Line */

/** @param {{ path: string, live: boolean }} props `path` is that of the stream in the API */
export function Logs({ path, live }) {
  const [text, setText] = useState("");
  const [level, setLevel] = useState("");
  const [rank, setRank] = useState("");
  const { shown, error, earlier, loading, all } = useLines(path, live, { text, level, rank });
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [follows, setFollows] = useState(true);
  useEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, follows]);
  /** @param {any} e */
  const onScroll = (e) => setFollows(e.target.scrollHeight - e.target.scrollTop - e.target.clientHeight < 40);
  return html`
    <div class="stack">
      <div class="row">
        <${Search} label="Search in logs" value=${text} onInput=${setText} />
        <select class="input inline" aria-label="Least level" value=${level} onChange=${(/** @type {any} */ e) => setLevel(e.target.value)}>
          <option value="">Every level</option>
          ${LEVELS.map((l) => html`<option value=${l}>${l.charAt(0) + l.slice(1).toLowerCase()} and up</option>`)}
        </select>
        <input class="input rank" aria-label="Rank" placeholder="Rank" inputmode="numeric" value=${rank} onInput=${(/** @type {any} */ e) => setRank(e.target.value.replace(/\D/g, ""))} />
        ${!follows && html`<${Button} icon="down" onClick=${() => setFollows(true)}>To the end<//>`}
      </div>
      <${Failure} error=${error} />
      <div class="panel logs" ref=${box} onScroll=${onScroll} tabindex="0" role="log" aria-label="Log lines" aria-live="off">
        ${!all && shown.length > 0 && html`<${Button} kind="plain" disabled=${loading} onClick=${earlier}>Show earlier lines<//>`}
        ${shown.map((line) => html`<${LogLine} key=${line.id} line=${line} />`)}
        ${!loading && !shown.length && html`<${Empty} title="No lines"><p>${text || level || rank ? "Nothing fits." : "Nothing was written yet."}</p><//>`}
      </div>
    </div>
  `;
}

/** @param {{ line: Line }} props */
const LogLine = ({ line }) => html`
  <div class=${`log ${line.level?.replace("LOG_LEVEL_", "").toLowerCase()}`}>
    <time title=${line.timestamp}>${clock(line.timestamp)}</time>
    <span class="log-rank">${line.rankId ?? ""}</span>
    <span class="log-text">${line.log.replace(/\n$/, "")}</span>
  </div>
`;

/** @param {string} timestamp */
const clock = (timestamp) => (timestamp ? new Date(timestamp).toLocaleTimeString("en-GB") : "");

/** @param {{ text: string, level: string, rank: string }} by */
function queryOf({ text, level, rank }) {
  const levels = level ? LEVELS.slice(LEVELS.indexOf(level)).map((l) => `LOG_LEVEL_${l}`) : [];
  return { searchText: text, levels, rankIds: rank ? [rank] : [] };
}

/** @param {string} path @param {boolean} live @param {{ text: string, level: string, rank: string }} by */
function useLines(path, live, by) {
  const [shown, setShown] = useState(/** @type {Line[]} */ ([]));
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const [loading, setLoading] = useState(true);
  const [all, setAll] = useState(false);
  const reading = useRef(new AbortController());
  useEffect(() => {
    const ended = new AbortController();
    reading.current = ended;
    const run = async () => {
      await pause(by.text ? 250 : 0, ended.signal);
      const found = await latest(path, queryOf(by), ended.signal);
      setShown(found);
      setAll(found.length < PAGE);
      setLoading(false);
      setError(undefined);
      if (live) await follow(path, queryOf(by), found.at(-1)?.id ?? "0", ended.signal, setShown, setError);
    };
    setLoading(true);
    run().catch((e) => {
      if (ended.signal.aborted) return;
      setLoading(false);
      setError(e);
    });
    return () => ended.abort();
  }, [path, live, by.text, by.level, by.rank]);
  const earlier = async () => {
    setLoading(true);
    const { signal } = reading.current;
    try {
      const found = await latest(path, { ...queryOf(by), timestampBefore: shown[0]?.timestamp }, signal);
      if (signal.aborted) return;
      const known = new Set(shown.map((l) => l.id));
      const fresh = found.filter((l) => !known.has(l.id));
      // Lines that came meanwhile stay.
      setShown((was) => [...fresh, ...was]);
      setAll(fresh.length === 0);
      setError(undefined);
    } catch (e) {
      if (signal.aborted) return;
      setError(/** @type {Error} */ (e));
    }
    setLoading(false);
  };
  return { shown, error, loading, all, earlier };
}

/** @param {string} path @param {import("../lib/api.js").Query} query @param {AbortSignal | undefined} signal */
async function latest(path, query, signal) {
  const found = [];
  for await (const line of lines(path, { ...query, limit: PAGE, orderBy: "ORDER_BY_DESC" }, { signal })) found.push(line);
  return found.reverse();
}

/** Read on behind the last line, also after the stream broke off; not while the tab is hidden. */
async function follow(
  /** @type {string} */ path, /** @type {import("../lib/api.js").Query} */ query, /** @type {string} */ last, /** @type {AbortSignal} */ signal,
  /** @type {(change: (was: Line[]) => Line[]) => void} */ setShown, /** @type {(error: Error | undefined) => void} */ setError,
) {
  /** @type {Line[]} */
  let waiting = [];
  let drawing = 0;
  const draw = () => {
    drawing = 0;
    const fresh = waiting;
    waiting = [];
    setShown((was) => [...was, ...fresh].slice(-MOST));
  };
  while (!signal.aborted) {
    await visible(signal);
    try {
      for await (const line of lines(path, { ...query, follow: true, afterId: last }, { signal })) {
        last = line.id;
        waiting.push(line);
        drawing ||= setTimeout(draw, 150);
      }
      // A host that holds no requests ends the stream early; when the task has ended, the caller ends this.
      await pause(AGAIN_MS, signal);
    } catch (e) {
      if (signal.aborted) return;
      setError(/** @type {Error} */ (e));
      await pause(AGAIN_MS, signal);
      setError(undefined);
    }
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
const pause = (ms, signal) =>
  new Promise((resolve, reject) => {
    if (!ms) return resolve();
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });

/** @param {AbortSignal} signal @returns {Promise<void>} */
const visible = (signal) =>
  new Promise((resolve) => {
    if (!document.hidden) return resolve();
    document.addEventListener("visibilitychange", () => resolve(), { once: true, signal });
  });
