// The log of a task: the latest lines first, then new ones, with filters by time, text, level and rank.
import { counted, day, localOf, stateName, zonedOf } from "../lib/format.js";
import { BEGINNING, gathered, LEVELS, useLogWindow } from "../lib/log_window.js";
import { ask, place } from "../lib/router.js";
import { save } from "../lib/save.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/view.js";
import { Button, Empty, Failure, Search } from "./basic.js";
import { Check, Pick } from "./fields.js";
import { attempt } from "./overlay.js";

// Pixels from an end of the box at which more is fetched, and at which somebody is at that end.
const NEAR = 800;
const AT_END = 40;
const START = "start";

/** @typedef {import("../lib/log_window.js").Line} Line */
/** @typedef {import("../lib/log_window.js").Asked} Asked */

/** Read what is asked for from the address, so that it can be sent. @returns {Asked} */
function askedFor() {
  const { query } = place.value;
  const at = query.get("at") === START ? BEGINNING : query.get("at") ?? "";
  return { text: query.get("q") ?? "", regex: query.has("regex"), level: query.get("level") ?? "", rank: query.get("rank") ?? "", at: Number.isNaN(Date.parse(at)) ? "" : at };
}

/** @param {{ path: string, live: boolean, name: string }} props `path` is that of the stream in the API, `name` that of a file */
export function Logs({ path, live, name }) {
  const asked = askedFor();
  const [seen, log] = useLogWindow(path, live, asked);
  const [pinned, setPinned] = useState(true);
  const box = useKept(seen.parts, log);
  useAbove(box);
  const narrow = !!(asked.text || asked.level || asked.rank);
  const look = () => {
    const element = box.current;
    // Draw the lines that arrived meanwhile first. Otherwise the box is too short and asks for more.
    if (!element || !log || log.seen !== seen) return;
    const below = element.scrollHeight - element.scrollTop - element.clientHeight;
    setPinned(log.pinned);
    if (below < NEAR && !log.pinned) log.later();
    else if (element.scrollTop < NEAR) log.earlier();
  };
  const onScroll = () => {
    const element = box.current;
    if (!element || !log) return;
    const below = element.scrollHeight - element.scrollTop - element.clientHeight;
    // The end comes into sight before all of it is read.
    log.pinned = below < AT_END && (seen.atEnd || (seen.busy && log.pinned));
    look();
  };
  // If lines do not fill the box, the user cannot scroll to load more.
  useEffect(look, [seen]);
  const toEnd = () => {
    if (asked.at) ask({ at: "" });
    else if (!seen.atEnd) log?.anew();
    else if (box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  return html`
    <div class="stack">
      <${Controls} asked=${asked} path=${path} name=${name} />
      <${Failure} error=${seen.error} />
      <div class="log-frame">
        <div class="panel logs" ref=${box} onScroll=${onScroll} onClick=${around} onKeyDown=${byKeys} tabindex="0" role="log" aria-label="Log lines" aria-live="off" aria-busy=${String(seen.busy)}>
          ${seen.atStart && seen.parts.length > 0 && html`<p class="log-edge">Start of log</p>`}
          ${seen.parts.map((part, i) => html`<${Part} key=${part[0].id} lines=${part} before=${seen.parts[i - 1]?.at(-1)?.timestamp ?? ""} mark=${asked.regex ? "" : asked.text} />`)}
          ${!seen.busy && !seen.parts.length && html`<${Empty} title=${narrow ? "No log lines match your filters." : "No log lines yet"} />`}
          ${seen.busy && html`<p class="log-edge" role="status">${narrow ? "Searching …" : "Loading …"}</p>`}
        </div>
        <div class="log-ends">
          ${!seen.atStart && seen.parts.length > 0 && html`<${Button} icon="up" onClick=${() => ask({ at: START })}>Jump to start<//>`}
          ${!pinned && html`<${Button} icon="down" onClick=${toEnd}>Jump to end<//>`}
        </div>
      </div>
    </div>
  `;
}

/** Tell a log how much of the page stands above it; also later, as notices come and go. @param {{ current: HTMLElement | null }} box */
function useAbove(box) {
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const tell = () => {
      const atEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - 1;
      element.style.setProperty("--above", `${Math.round(element.getBoundingClientRect().top + scrollY)}px`);
      if (atEnd) element.scrollTop = element.scrollHeight;
    };
    tell();
    const sizes = new ResizeObserver(tell);
    sizes.observe(/** @type {HTMLElement} */ (document.getElementById("main")));
    return () => sizes.disconnect();
  }, []);
}

/** Show what is around a line whose time was pressed, also what filters leave out. @param {any} e */
function around(e) {
  const at = e.target.closest("time")?.getAttribute("datetime");
  if (at) ask({ at, q: "", regex: "", level: "", rank: "" });
}

/** Reach times by keys, without thousands of stops for Tab: Enter goes to the first in sight and then presses it, arrows go on, Escape goes back. Buttons would be left out where lines are copied. @param {KeyboardEvent} e */
function byKeys(e) {
  const box = /** @type {HTMLElement} */ (e.currentTarget);
  const line = /** @type {HTMLElement} */ (e.target).closest(".log");
  const lines = [...box.querySelectorAll(".log")];
  let next;
  if (line && e.key === "Enter") around(e);
  else if (e.key === "Enter") next = lines.find((l) => l.getBoundingClientRect().bottom > box.getBoundingClientRect().top);
  if (line && (e.key === "ArrowUp" || e.key === "ArrowDown")) next = lines[lines.indexOf(line) + (e.key === "ArrowUp" ? -1 : 1)];
  if (line && e.key === "Escape") box.focus();
  if (!next) return;
  e.preventDefault();
  next.querySelector("time")?.focus();
}

/**
 * Keep the first line in sight where it is while lines before it come and go; or stay at the end. What was asked for anew is shown from its beginning.
 * @param {Line[][]} parts @param {import("../lib/log_window.js").LogWindow | null} log
 */
function useKept(parts, log) {
  const pinned = log?.pinned ?? true;
  const shown = useRef(log);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const drawn = useRef(parts);
  const element = box.current;
  let anchor = /** @type {Element | null | undefined} */ (null);
  let top = 0;
  // Remember the visible line before the page changes, so that it stays visible.
  if (drawn.current !== parts && element && !pinned) {
    const sight = element.getBoundingClientRect();
    anchor = [...element.querySelectorAll(".log-part")].find((p) => p.getBoundingClientRect().bottom > sight.top);
    anchor = anchor && ([...anchor.querySelectorAll(".log")].find((line) => line.getBoundingClientRect().bottom > sight.top) ?? anchor);
    top = anchor?.getBoundingClientRect().top ?? 0;
    // The day over the first line of all is gone when lines come before it.
    if (!element.scrollTop) top = Math.min(top, sight.top);
  }
  useLayoutEffect(() => {
    drawn.current = parts;
    if (!element) return;
    const isNew = shown.current !== log && log?.seen.parts === parts;
    if (isNew) shown.current = log;
    if (pinned) element.scrollTop = element.scrollHeight;
    else if (isNew) element.scrollTop = 0;
    else if (anchor?.isConnected) element.scrollTop += anchor.getBoundingClientRect().top - top;
  }, [parts]);
  return box;
}

/** @param {{ lines: Line[], before: string, mark: string }} props `before` is the time of the line before these */
const Part = ({ lines, before, mark }) =>
  useMemo(
    () => html`
      <div class="log-part">
        ${lines.map((line, i) => {
          const date = dayOf(line.timestamp);
          const isNew = date !== dayOf((lines[i - 1] ?? { timestamp: before }).timestamp);
          return html`${isNew && html`<p class="log-edge" key=${`day-${line.id}`}>${date}</p>`}<${LogLine} key=${line.id} line=${line} mark=${mark} />`;
        })}
      </div>
    `,
    [lines, before, mark],
  );

// The agent and the task write such a line where they left out others.
const GAP = /^[\d,]+ (log )?lines? (were )?dropped/;
const ORDINARY = ["", "info", "unspecified"];

/** @param {{ line: Line, mark: string }} props */
function LogLine({ line, mark }) {
  const level = (line.level ?? "").replace("LOG_LEVEL_", "").toLowerCase();
  const gap = level === "warning" && GAP.test(line.log) ? "gap" : "";
  const sign = !ORDINARY.includes(level) && html`<span class="log-level" role="img" aria-label=${stateName(level)} title=${stateName(level)}>${level.charAt(0).toUpperCase()}</span>`;
  return html`
    <div class=${`log ${level} ${gap}`}>
      <time datetime=${line.timestamp} role="button" tabindex="-1" title=${`${line.timestamp}: show surrounding lines`}>${clock(line.timestamp)}</time>
      <span class="log-rank">${line.rankId ?? ""}</span>
      ${sign}
      <span class="log-text">${marked(line.log.replace(/\n$/, ""), mark)}</span>
    </div>
  `;
}

/** Mark where a text is found. @param {string} text @param {string} mark */
function marked(text, mark) {
  if (!mark) return text;
  const [found, wanted] = [text.toLowerCase(), mark.toLowerCase()];
  const parts = [];
  let from = 0;
  for (let at = found.indexOf(wanted); at >= 0; at = found.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), html`<mark>${text.slice(at, at + mark.length)}</mark>`);
    from = at + mark.length;
  }
  return [...parts, text.slice(from)];
}

/** @param {string} timestamp */
const clock = (timestamp) => (timestamp ? new Date(timestamp).toLocaleTimeString("en-GB") : "");

/** @param {string} timestamp */
const dayOf = (timestamp) => (timestamp ? day(timestamp) : "");

/** @param {{ asked: Asked, path: string, name: string }} props */
function Controls({ asked, path, name }) {
  return html`
    <div class="row log-controls">
      <${Search} label="Search in logs" value=${asked.text} onInput=${(/** @type {string} */ q) => ask({ q })} />
      <${Check} label="Regular expression" value=${asked.regex} onChange=${() => ask({ regex: asked.regex ? "" : "1" })} />
      <${Pick} label="Minimum level" value=${asked.level} set=${(/** @type {string} */ level) => ask({ level })} of=${[["", "All levels"], ...LEVELS.map((l) => [l, `${stateName(l)} and above`])]} />
      <input class="input rank" aria-label="Ranks" placeholder="Ranks" title="Ranks of a distributed trial, such as 0, 3" inputmode="numeric" value=${asked.rank} onInput=${(/** @type {any} */ e) => ask({ rank: e.target.value.replace(/[^\d ,]/g, "") })} />
      <label class="row small soft">From<input class="input inline" type="datetime-local" step="1" aria-label="From time" value=${asked.at === BEGINNING ? "" : localOf(asked.at)} onChange=${(/** @type {any} */ e) => ask({ at: zonedOf(e.target.value) })} /></label>
      <${Download} asked=${asked} path=${path} name=${name} />
    </div>
  `;
}

/** @param {{ asked: Asked, path: string, name: string }} props */
function Download({ asked, path, name }) {
  const [count, setCount] = useState(-1);
  const reading = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => reading.current?.abort(), []);
  const begin = async () => {
    const mine = (reading.current = new AbortController());
    setCount(0);
    try {
      const content = await gathered(path, asked, mine.signal, setCount);
      save(content, `${name}.log`);
    } catch (e) {
      if (!mine.signal.aborted) await attempt(() => Promise.reject(e), "");
    }
    setCount(-1);
  };
  if (count < 0) return html`<${Button} title="All matching lines as a text file" onClick=${begin}>Download<//>`;
  return html`<${Button} onClick=${() => reading.current?.abort()}>${counted(count, "line")} … Cancel<//>`;
}
