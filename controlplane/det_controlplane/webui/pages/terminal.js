// A terminal of a shell, in the page.
import { copy } from "../lib/clipboard.js";
import { useLive } from "../lib/live.js";
import { library, token } from "../lib/library.js";
import { link } from "../lib/router.js";
import { end as endTask, isOver, one, stateOf } from "../lib/tasks.js";
import { Wire } from "../lib/terminal.js";
import { onThemeChange } from "../lib/theme.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";
import { Bones, Button, Failure, Head, Loaded, State, Toggle } from "../parts/basic.js";
import { attempt } from "../parts/overlay.js";

const LIVE_MS = 5_000;
const READER = "terminal-reader";
const screen = library(() => Promise.all([import("../vendor/xterm.js"), import("../vendor/xterm-fit.js")]), new URL("../vendor/xterm.css", import.meta.url));

/** @param {{ id: string }} props */
export function Page({ id }) {
  const found = useLive((signal) => one("shell", id, signal), [id], (task) => (isOver(task) ? 0 : LIVE_MS));
  return html`<${Loaded} of=${found}>${(/** @type {any} */ task) => html`<${Shell} task=${task} reload=${found.reload} />`}<//>`;
}

/** @param {{ task: any, reload: () => Promise<void> }} props */
function Shell({ task, reload }) {
  const [state, setState] = useState(/** @type {import("../lib/terminal.js").State} */ ({ what: "connecting" }));
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const [ready, setReady] = useState(false);
  const [selected, setSelected] = useState(false);
  const [reader, setReader] = useState(localStorage.getItem(READER) === "1");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const made = useRef(/** @type {Made | null} */ (null));
  const began = useRef(false);
  useEffect(() => {
    let here = true;
    screen().then(
      ([{ Terminal }, { FitAddon }]) => {
        if (!here || !box.current) return;
        setReady(true);
        made.current = make(Terminal, FitAddon, box.current, task.id, (next) => (began.current ||= next.what === "open", setState(next)), setSelected);
      },
      () => here && setError(new Error("The terminal did not load. The cluster may have been upgraded. Reload this page.")),
    );
    return () => {
      here = false;
      made.current?.dispose();
    };
  }, [task.id]);
  useEffect(() => {
    localStorage.setItem(READER, reader ? "1" : "0");
    if (made.current) made.current.terminal.options.screenReaderMode = reader;
  }, [reader, ready]);
  const again = () => (made.current?.wire.open(), made.current?.terminal.focus());
  return html`
    <${Head} title=${task.description || task.id} text="Shell" beside=${html`<${State} state=${stateOf(task)} />`}>
      <${Button} icon="copy" disabled=${!selected} onClick=${() => made.current && copied(made.current.terminal)}>Copy<//>
      <${Toggle} on=${reader} onClick=${() => setReader(!reader)}>Screen reader mode<//>
      <${Button} href=${link(`/tasks/shell/${task.id}`)}>Log<//>
      ${!isOver(task) && html`<${Button} kind="danger" icon="close" onClick=${() => attempt(() => endTask(task), "Ending task").then(reload)}>End<//>`}
    <//>
    <div class="stack">
      <${Failure} error=${error} />
      <${Said} state=${state} task=${task} began=${began.current} again=${again} />
      ${!ready && !error && html`<${Bones} lines=${3} />`}
      <div class="panel terminal" data-state=${state.what} ref=${box} aria-describedby="terminal-keys" hidden=${!ready} />
      <p class="faint small" id="terminal-keys">Ctrl+Shift+C copies, Ctrl+Shift+V pastes, Ctrl+Shift+↑ leaves the terminal. The shell keeps running for 10 minutes after you close the page.</p>
    </div>
  `;
}

/** What is to be known about the connection. @param {{ state: import("../lib/terminal.js").State, task: any, began: boolean, again: () => void }} props */
function Said({ state, task, began, again }) {
  if (state.what === "open" || (state.what === "connecting" && !began)) return null;
  const over = isOver(task);
  const text =
    state.what === "ended" ? `The shell ended with status ${state.code}.`
    : state.what === "taken" ? "This shell is open in another window."
    : over ? "The task and its shell have ended."
    : state.what === "refused" ? state.why
    : state.what === "connecting" ? "Reconnecting …"
    : began && state.what === "lost" ? `${state.why} The shell is still running. This page is reconnecting.`
    : "The shell is not responding yet. Retrying automatically.";
  const act = over ? "" : { ended: "Restart shell", taken: "Continue here", refused: "Retry", lost: "Reconnect now", connecting: "" }[state.what];
  return html`
    <div class=${`notice ${state.what === "lost" || state.what === "refused" ? "amber" : "quiet"}`} role="status">
      <p>${text}</p>
      ${act && html`<${Button} onClick=${again}>${act}<//>`}
    </div>
  `;
}

/** @typedef {{ terminal: import("@xterm/xterm").Terminal, wire: Wire, dispose: () => void }} Made */

/**
 * @param {typeof import("@xterm/xterm").Terminal} Terminal @param {typeof import("@xterm/addon-fit").FitAddon} FitAddon
 * @param {HTMLElement} box @param {string} task @param {(state: import("../lib/terminal.js").State) => void} onState @param {(some: boolean) => void} onSelection
 * @returns {Made}
 */
function make(Terminal, FitAddon, box, task, onState, onSelection) {
  box.hidden = false;
  // Colours of programs are made readable on the page's own ground.
  const terminal = new Terminal({ fontFamily: token("--mono"), fontSize: 14, scrollback: 5_000, minimumContrastRatio: 4.5, theme: colours(), cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(box);
  fit.fit();
  terminal.attachCustomKeyEventHandler((event) => !isOurs(event, terminal));
  const wire = new Wire({
    task, session: sessionOf(task), size: () => [terminal.cols, terminal.rows],
    onBegin: () => terminal.reset(),
    onOutput: (part, shown) => terminal.write(part, shown),
    onState,
  });
  terminal.onData((text) => wire.type(text));
  terminal.onBinary((text) => wire.typeBytes(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  terminal.onResize(() => wire.resized());
  terminal.onSelectionChange(() => onSelection(terminal.hasSelection()));
  let asked = 0;
  const sizes = new ResizeObserver(() => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(() => fit.fit());
  });
  sizes.observe(box);
  const unthemed = onThemeChange(() => (terminal.options.theme = colours()));
  terminal.focus();
  const dispose = () => {
    cancelAnimationFrame(asked);
    sizes.disconnect();
    unthemed();
    wire.close();
    terminal.dispose();
  };
  return { terminal, wire, dispose };
}

/** Take keys that are not for the shell. @param {KeyboardEvent} event @param {import("@xterm/xterm").Terminal} terminal */
function isOurs(event, terminal) {
  if (!event.ctrlKey || !event.shiftKey) return false;
  if (event.code === "KeyV") return true; // the browser pastes
  if (event.code !== "KeyC" && event.code !== "ArrowUp") return false;
  event.preventDefault();
  if (event.type !== "keydown") return true;
  if (event.code === "ArrowUp") /** @type {HTMLElement | null} */ (document.querySelector(".head .row :is(a, button):not(:disabled)"))?.focus();
  else if (terminal.hasSelection()) copied(terminal);
  return true;
}

/** @param {import("@xterm/xterm").Terminal} terminal */
const copied = (terminal) => attempt(() => copy(terminal.getSelection()), "Copied");

/** The name of this tab's session: the tab finds its shell again when it is loaded anew. @param {string} task */
function sessionOf(task) {
  const key = `terminal-${task}`;
  const name = sessionStorage.getItem(key) ?? Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("");
  sessionStorage.setItem(key, name);
  return name;
}

const colours = () => ({
  background: token("--surface"), foreground: token("--ink"), cursor: token("--accent"), cursorAccent: token("--surface"),
  selectionBackground: token("--accent"), selectionForeground: token("--on-accent"),
});
