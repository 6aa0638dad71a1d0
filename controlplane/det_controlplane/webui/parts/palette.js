// The dialogs of keys: a search over everything, and the list of shortcuts.
import { ApiError, get, post } from "../lib/api.js";
import { field, textOf } from "../lib/filters.js";
import { counted } from "../lib/format.js";
import { areas, isAdmin, maySomewhere } from "../lib/rights.js";
import { go, link } from "../lib/router.js";
import { shownName } from "../lib/session.js";
import { KINDS, listed } from "../lib/tasks.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/view.js";
import { Check } from "./fields.js";
import { KEYS, keysAreOn, opened, PALETTE_KEY, pages, switchKeys } from "./frame.js";
import { Dialog } from "./overlay.js";

const PAUSE_MS = 120;
const MOST = 5; // results of a kind
const OLD_ID = /^old:([^/]+\/)?\d{1,9}$/;
const MOST_TASKS = 200; // tasks of a kind that are searched, the newest ones
const NEWEST = { orderBy: "ORDER_BY_DESC", limit: MOST };

/** @typedef {{ name: string, note?: string, to: string }} Hit */
/** @typedef {{ kind: string, hits: Hit[] }} Kind */

/** Return the answer, or the rest if the user has no right to it. @template T @param {Promise<T>} answer @param {T} rest */
const allowed = (answer, rest) =>
  answer.catch((e) => {
    if (e instanceof ApiError && e.status === 403) return rest;
    throw e;
  });

/** Find an imported experiment by its id in the old cluster, such as old:17. @param {string} reference @param {AbortSignal} signal @returns {Promise<number | undefined>} */
async function newId(reference, signal) {
  try {
    return (await get("/api/v1/imports/new-id", { reference }, { signal })).id;
  } catch (e) {
    if (e instanceof ApiError && e.status === 404) return undefined;
    throw e;
  }
}

/** @param {string} text @param {AbortSignal} signal @returns {Promise<Hit[]>} */
async function experiments(text, signal) {
  if (OLD_ID.test(text)) {
    const id = await newId(text, signal);
    return id ? experiments(String(id), signal) : [];
  }
  const children = [field("name", "contains", text)];
  if (/^\d{1,9}$/.test(text)) children.push(field("id", "=", Number(text), undefined, "COLUMN_TYPE_NUMBER"));
  const filter = JSON.stringify({ filterGroup: { kind: "group", conjunction: "or", children }, showArchived: false });
  const found = await post("/api/v1/experiments-search", { limit: MOST, sort: "id=desc", filter }, { signal });
  return found.experiments.map((/** @type {any} */ { experiment: e }) => ({ name: e.name, note: `${e.id} · ${e.projectName}`, to: `/experiments/${e.id}` }));
}

/** @param {string} name @param {AbortSignal} signal @returns {Promise<Hit[]>} */
async function models(name, signal) {
  const found = await get("/api/v1/models", { name, archived: false, sortBy: "SORT_BY_LAST_UPDATED_TIME", ...NEWEST }, { signal });
  return found.models.map((/** @type {any} */ m) => ({ name: m.name, note: m.description, to: `/models/${m.id}` }));
}

/** @param {string} name @param {AbortSignal} signal @returns {Promise<Hit[]>} */
async function projects(name, signal) {
  const found = await get("/api/v1/workspaces/0/projects", { name, archived: false, limit: MOST }, { signal });
  return found.projects.map((/** @type {any} */ p) => ({ name: p.name, note: p.workspaceName, to: `/experiments?project=${p.id}` }));
}

/** Administrators go to the account, other users to the experiments of the user. @param {string} name @param {AbortSignal} signal @returns {Promise<Hit[]>} */
async function users(name, signal) {
  const found = await get("/api/v1/users", { name, active: true, limit: MOST }, { signal });
  /** @param {string} value */
  const experimentsOf = (value) => {
    const condition = { column: "user", location: "LOCATION_TYPE_EXPERIMENT", type: "COLUMN_TYPE_TEXT", operator: "=", value };
    return `/experiments?filter=${encodeURIComponent(textOf({ join: "and", of: [condition] }))}`;
  };
  return found.users.map((/** @type {any} */ u) => ({
    name: shownName(u), note: u.displayName ? u.username : "", to: isAdmin() ? `/admin/people/${u.id}` : experimentsOf(u.username),
  }));
}

/** Return the newest tasks of all kinds. The API cannot search them by name. @returns {Promise<any[]>} */
async function newestTasks() {
  const { signal } = new AbortController();
  const of = await Promise.all(Object.keys(KINDS).map((kind) => allowed(listed(kind, MOST_TASKS, signal), [])));
  return of.flat().sort((a, b) => String(b.startTime).localeCompare(String(a.startTime)));
}

/** @param {string} text @param {any[]} tasks @returns {Hit[]} */
function tasksNamed(text, tasks) {
  const wanted = text.toLowerCase();
  const hits = tasks.filter((t) => `${t.description} ${t.id} ${KINDS[t.kind]}`.toLowerCase().includes(wanted));
  return hits.slice(0, MOST).map((t) => ({ name: t.description || t.id.slice(0, 8), note: KINDS[t.kind], to: `/tasks/${t.kind}/${t.id}` }));
}

/** @param {string} text @returns {Hit[]} */
function pagesNamed(text) {
  const all = [
    ...pages().map(([, to, name]) => [to, name]),
    ...areas().map(([to, name]) => [to, name]),
    ["/settings", "Settings"],
    ...(maySomewhere("CREATE_EXPERIMENT") ? [["/experiments/new", "New experiment"]] : []),
  ];
  const letterOf = (/** @type {string} */ to) => Object.keys(KEYS).find((key) => KEYS[key] === to);
  return all
    .filter(([, name]) => name.toLowerCase().includes(text.toLowerCase()))
    .map(([to, name]) => ({ name, note: letterOf(to) ? `g ${letterOf(to)}` : "", to }));
}

/** @param {string} text @param {Promise<any[]>} tasks @param {AbortSignal} signal @returns {Promise<Kind[]>} */
async function found(text, tasks, signal) {
  const of = await Promise.all([
    allowed(experiments(text, signal), []),
    allowed(projects(text, signal), []),
    allowed(models(text, signal), []),
    tasks.then((all) => tasksNamed(text, all)),
    allowed(users(text, signal), []),
  ]);
  return ["Experiments", "Projects", "Models", "Tasks", "Users"].map((kind, i) => ({ kind, hits: of[i] }));
}

/** Search while the user types; the results of the last text stay until others are there. @param {string} text */
function useResults(text) {
  const [state, setState] = useState(/** @type {{ text: string, kinds: Kind[], error?: Error }} */ ({ text: "", kinds: [] }));
  const tasks = useMemo(newestTasks, []);
  useEffect(() => {
    if (!text) return setState({ text, kinds: [] });
    const ended = new AbortController();
    const timer = setTimeout(() => {
      found(text, tasks, ended.signal).then(
        (kinds) => setState({ text, kinds }),
        (error) => ended.signal.aborted || setState({ text, kinds: [], error }),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [text]);
  return state;
}

function Palette() {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const text = typed.trim();
  const results = useResults(text);
  const kinds = [{ kind: "Pages", hits: pagesNamed(text) }, ...results.kinds].filter((k) => k.hits.length);
  const hits = kinds.flatMap((k) => k.hits);
  const chosen = Math.min(at, hits.length - 1);
  const goesAtOnce = useRef(false);
  useEffect(() => box.current?.showModal(), []);
  useEffect(() => document.getElementById(`hit-${chosen}`)?.scrollIntoView({ block: "nearest" }), [chosen]);
  /** @param {Hit} hit */
  const follow = (hit) => {
    box.current?.close(); // the page gets the focus back before it changes
    go(hit.to);
  };
  useEffect(() => {
    if (goesAtOnce.current && results.text === text && hits.length) follow(hits[0]);
  }, [results]);
  /** @param {KeyboardEvent} e */
  const onKeyDown = (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step && hits.length) setAt((chosen + step + hits.length) % hits.length);
    else if (e.key === "Enter" && results.text !== text) goesAtOnce.current = true;
    else if (e.key === "Enter" && hits[chosen]) follow(hits[chosen]);
    else return;
    e.preventDefault();
  };
  const type = (/** @type {any} */ e) => {
    goesAtOnce.current = false;
    setTyped(e.target.value);
    setAt(0);
  };
  const status = results.error?.message ?? (results.text !== text ? "Searching …" : hits.length ? counted(hits.length, "result") : "No results");
  return html`
    <dialog class="finder" ref=${box} aria-label="Quick search" onClose=${() => (opened.value = "")} onClick=${(/** @type {Event} */ e) => e.target === box.current && box.current?.close()}>
      <input class="input" role="combobox" aria-label="Search pages, experiments, projects, models, tasks and users" placeholder="Search everything" autocomplete="off" spellcheck=${false}
        aria-expanded="true" aria-controls="hits" aria-autocomplete="list" aria-activedescendant=${hits.length ? `hit-${chosen}` : undefined}
        value=${typed} onInput=${type} onKeyDown=${onKeyDown} />
      <${Hits} kinds=${kinds} chosen=${chosen} follow=${follow} />
      <p class=${results.error ? "bad small" : "faint small"} role="status">${status}</p>
    </dialog>
  `;
}

/** @param {{ kinds: Kind[], chosen: number, follow: (hit: Hit) => void }} props */
function Hits({ kinds, chosen, follow }) {
  let index = 0;
  return html`
    <div class="hits" id="hits" role="listbox" aria-label="Results" tabindex="-1">
      ${kinds.map(
        ({ kind, hits }) => html`
          <div role="group" aria-label=${kind} key=${kind}>
            <div class="nav-title" aria-hidden="true">${kind}</div>
            ${hits.map((hit) => {
              const i = index++;
              const act = (/** @type {MouseEvent} */ e) => {
                if (e.ctrlKey || e.metaKey || e.shiftKey) return;
                e.preventDefault();
                follow(hit);
              };
              return html`<a class="hit" role="option" id=${`hit-${i}`} key=${hit.to} href=${link(hit.to)} tabindex="-1" aria-selected=${String(i === chosen)} onClick=${act}><span class="cut">${hit.name}</span><span class="faint small cut">${hit.note}</span></a>`;
            })}
          </div>
        `,
      )}
    </div>
  `;
}

function Help() {
  const [on, setOn] = useState(keysAreOn());
  const names = Object.fromEntries(pages().map(([, to, name]) => [to, name]));
  const toggle = () => {
    switchKeys(!on);
    setOn(!on);
  };
  const ways = Object.entries(KEYS).flatMap(([key, to]) => (to === "/settings" || names[to] ? [[key, names[to] ?? "Settings"]] : []));
  return html`
    <${Dialog} title="Keyboard shortcuts" onClose=${() => (opened.value = "")}>
      <dl class="pairs keys">
        <dt><kbd>${PALETTE_KEY}</kbd></dt><dd>Search everything</dd>
        <dt><kbd>/</kbd></dt><dd>Search on this page</dd>
        ${ways.map(([key, name]) => html`<dt><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${name}</dd>`)}
        <dt><kbd>Ctrl Z</kbd></dt><dd>Undo, while a message offers it</dd>
        <dt><kbd>?</kbd></dt><dd>This list</dd>
      </dl>
      <${Check} label="Use shortcuts of single keys" value=${on} onChange=${toggle} />
    <//>
  `;
}

/** Shows the dialog that was opened. */
export function Keys() {
  if (opened.value === "palette") return html`<${Palette} />`;
  return opened.value && html`<${Help} />`;
}
