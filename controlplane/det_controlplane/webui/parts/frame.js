// The frame around every page: where one can go, and who one is.
import { lost, retry } from "../lib/live.js";
import { areas, maySomewhere } from "../lib/rights.js";
import { afterAsking, go, link, place } from "../lib/router.js";
import { cluster, refresh, shownName, signOut, user } from "../lib/session.js";
import { choose, theme, THEMES } from "../lib/theme.js";
import { later } from "../lib/library.js";
import { html, signal, useEffect, useLayoutEffect, useState } from "../lib/view.js";
import { Button, Icon } from "./basic.js";
import { AskDiscard, attempt, Menu, Toasts } from "./overlay.js";

/** @type {[string, string, string, string, (() => boolean)?][]} group, address, name, icon, and who sees it if not everybody */
export const NAVIGATION = [
  ["", "/dashboard", "Home", "home"],
  ["", "/experiments", "Experiments", "flask"],
  ["", "/tasks", "Tasks", "list"],
  ["", "/work", "All work", "columns"],
  ["", "/models", "Models", "box"],
  ["", "/workspaces", "Workspaces", "folder"],
  ["", "/templates", "Templates", "file", () => maySomewhere("VIEW_TEMPLATES")],
  ["Cluster", "/queue", "Job queue", "queue"],
  ["Cluster", "/cluster", "Machines", "server"],
  ["Cluster", "/budgets", "Budgets", "coin"],
  ["Cluster", "/webhooks", "Webhooks", "bell", () => maySomewhere("EDIT_WEBHOOKS")],
  ["Cluster", "/admin", "Administration", "people", () => areas().length > 0],
];

/** The pages of the menu that the user may see. */
export const pages = () => NAVIGATION.filter(([, , , , fits]) => !fits || fits());

/** The pages that the key g and then another key open. @type {Record<string, string>} */
export const KEYS = {
  h: "/dashboard", e: "/experiments", t: "/tasks", l: "/work", m: "/models", w: "/workspaces", p: "/templates", q: "/queue",
  c: "/cluster", b: "/budgets", k: "/webhooks", a: "/admin", s: "/settings",
};
export const PALETTE_KEY = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘ K" : "Ctrl K";

/** The dialog of keys that is open. @type {{ value: "" | "palette" | "help" }} */
export const opened = signal(/** @type {any} */ (""));
const Keys = later(() => import("./palette.js"), "Keys");

// Users of speech input must be able to switch off shortcuts of single keys.
const OFF = "shortcuts-off";
export const keysAreOn = () => !localStorage.getItem(OFF);
/** @param {boolean} on */
export const switchKeys = (on) => (on ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1"));

const SEQUENCE_MS = 1_500;
const FIELDS = "input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable], .terminal, dialog";
let began = 0;

/** Act on a shortcut, but never while the user types or a dialog is open. @param {KeyboardEvent} e */
function onShortcut(e) {
  const isTyping = /** @type {Element} */ (e.target).closest?.(FIELDS) || document.querySelector("dialog[open]") || opened.value;
  if (isTyping || e.defaultPrevented || e.isComposing || e.altKey) return;
  const isSequence = Date.now() - began < SEQUENCE_MS;
  began = 0;
  const act = actionOf(e, isSequence);
  if (!act) return;
  e.preventDefault();
  act();
}

/** @param {KeyboardEvent} e @param {boolean} isSequence whether g was pressed just before @returns {(() => void) | undefined} */
function actionOf(e, isSequence) {
  if (e.ctrlKey || e.metaKey) return e.key.toLowerCase() === "k" && !e.shiftKey ? () => void (opened.value = "palette") : undefined;
  if (!keysAreOn()) return undefined;
  const to = isSequence && KEYS[e.key];
  if (to) return to === "/settings" || pages().some(([, path]) => path === to) ? () => go(to) : undefined;
  if (e.key === "g") return () => void (began = Date.now());
  if (e.key === "?") return () => void (opened.value = "help");
  return e.key === "/" ? search : undefined;
}

/** Go to the search field of the page, or search everything. */
function search() {
  const field = /** @type {HTMLInputElement | null} */ (document.querySelector("main input[type=search]"));
  if (!field) opened.value = "palette";
  field?.focus();
  field?.select();
}

const MESSAGE_MS = 60_000;

export const Mark = () => html`
  <svg viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="8" fill="#4a4fd0" />
    <path d="M6 23c6 0 6-12 10-12 3 0 3 6 10 6" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round" />
    <path d="M6 23c4 0 5-5 9-5 4 0 5 3 11 4" fill="none" stroke="#b9bcff" stroke-width="2.2" stroke-linecap="round" />
  </svg>
`;

/** @param {{ children?: any }} props */
export function Frame({ children }) {
  const [open, setOpen] = useState(false);
  const path = place.value.path;
  // Close it at once. Later, it would close a menu that the user opened meanwhile.
  useLayoutEffect(() => setOpen(false), [path]);
  useEffect(() => {
    addEventListener("keydown", onShortcut);
    return () => removeEventListener("keydown", onShortcut);
  }, []);
  const name = cluster.value?.clusterName || "Determined";
  /** @param {KeyboardEvent} e */
  const shut = (e) => {
    if (e.key !== "Escape" || !open || e.defaultPrevented) return;
    setOpen(false);
    document.getElementById("menu")?.focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${toMain}>Skip to content</a>
    <header class="top">
      <a class="brand" href=${link("/dashboard")}><${Mark} />${name}</a>
      <${Button} kind="plain square" icon=${open ? "close" : "menu"} aria-label="Menu" aria-expanded=${String(open)} aria-controls="navigation" id="menu" onClick=${() => setOpen(!open)} />
    </header>
    <div class="frame">
      <aside class=${`side ${open ? "open" : ""}`} id="navigation" aria-label="Navigation" onKeyDown=${shut}>
        <a class="brand" href=${link("/dashboard")}><${Mark} /><span class="cut">${name}</span></a>
        <${Button} kind="quick" icon="search" aria-keyshortcuts="Control+K" onClick=${() => (opened.value = "palette")}>Quick search<kbd aria-hidden="true">${PALETTE_KEY}</kbd><//>
        <${Navigation} path=${path} />
        <${Foot} />
      </aside>
      <main class="main" id="main" tabindex="-1"><${Connection} /><${Message} />${children}</main>
    </div>
    <${Toasts} /><${AskDiscard} /><${Keys} when=${!!opened.value} key=${opened.value} />
  `;
}

/** Say once for the whole page that nothing answers. */
function Connection() {
  if (!lost.value) return null;
  const { error, since } = lost.value;
  return html`
    <div class="notice red said lost" role="alert">
      <p>${/** @type {any} */ (error).status ? error.message : "The cluster is not responding. Retrying automatically."} Showing data from ${new Date(since).toLocaleTimeString("en-GB")}.</p>
      <${Button} onClick=${retry}>Retry now<//>
    </div>
  `;
}

/** Show what the operators of the cluster have to say; asked for now and then, while somebody looks. */
function Message() {
  useEffect(() => {
    const timer = setInterval(() => document.hidden || refresh().catch(() => {}), MESSAGE_MS);
    return () => clearInterval(timer);
  }, []);
  const said = cluster.value?.clusterMessage?.message;
  return said && html`<div class="notice amber said" role="status" aria-label="Cluster message"><p>${said}</p></div>`;
}

/** @param {Event} e */
function toMain(e) {
  e.preventDefault();
  document.getElementById("main")?.focus();
}

/** @param {{ path: string }} props */
function Navigation({ path }) {
  let group = "";
  const at = `/${path.split("/")[1]}`.replace(/^.(trials|compare)$/, "/experiments").replace(/^.$/, "/dashboard");
  return html`
    <nav class="nav" aria-label="Pages">
      ${pages().map(([of, to, name, icon]) => {
        const title = of !== group && html`<div class="nav-title">${of}</div>`;
        group = of;
        return html`${title}<a href=${link(to)} aria-current=${at === to ? "page" : undefined}><${Icon} name=${icon} />${name}</a>`;
      })}
    </nav>
  `;
}

function Foot() {
  const items = [
    ...THEMES.map((name) => ({
      name: `${{ system: "System theme", light: "Light theme", dark: "Dark theme" }[name]}${theme.value === name ? " ✓" : ""}`,
      act: () => choose(name),
    })),
    { name: "Keyboard shortcuts", act: () => (opened.value = "help") },
    { name: "Settings", act: () => go("/settings") },
    { name: "Sign out", act: () => afterAsking(() => void attempt(signOut, "Signed out")) },
  ];
  return html`
    <div class="side-foot">
      <div class="row row-wide">
        <span class="cut grow small">${shownName(user.value)}</span>
        <${AccountMenu} items=${items} />
      </div>
    </div>
  `;
}

/** @param {{ items: any[] }} props */
const AccountMenu = ({ items }) => html`<${Menu} label="Your account" items=${items} kind="plain" />`;
