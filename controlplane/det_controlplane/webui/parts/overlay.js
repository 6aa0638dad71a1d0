// Menus, dialogs and short messages above a page.
import { send } from "../lib/api.js";
import { discarding, useUnsaved } from "../lib/router.js";
import { html, signal, useEffect, useRef, useState } from "../lib/view.js";
import { Button, Failure, Icon } from "./basic.js";

/**
 * @typedef {{ name: string, icon?: string, danger?: boolean, off?: boolean, on?: boolean, act: () => void }} Item one that is on or not is switched, and the menu stays
 * @typedef {{ text: string, bad?: boolean, undo?: () => void, about?: string, id: number }} Toast
 */

/** @param {{ label: string, icon?: string, text?: any, items: (Item | false | null | undefined)[], side?: string, kind?: string }} props */
export function Menu({ label, icon = "more", text, items, side = "", kind = "" }) {
  const [open, setOpen] = useState(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!open) return;
    put(/** @type {HTMLElement} */ (box.current), side);
    const list = box.current?.querySelectorAll("button.menu-item:not(:disabled)");
    /** @type {any} */ (list?.[0])?.focus();
    /** @param {Event} e */
    const outside = (e) => {
      if (!box.current?.contains(/** @type {Node} */ (e.target))) setOpen(false);
    };
    const along = () => box.current && put(box.current, side);
    document.addEventListener("pointerdown", outside);
    document.addEventListener("scroll", along, { capture: true, passive: true });
    addEventListener("resize", along);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("scroll", along, { capture: true });
      removeEventListener("resize", along);
    };
  }, [open]);
  const shut = () => {
    setOpen(false);
    /** @type {any} */ (box.current?.querySelector("button"))?.focus();
  };
  /** @param {KeyboardEvent} e */
  const onKey = (e) => {
    if (!open) return;
    if (e.key === "Escape") {
      e.preventDefault();
      shut();
    }
    if (e.key === "Tab") setOpen(false);
    const list = [...(box.current?.querySelectorAll("button.menu-item:not(:disabled)") ?? [])];
    const at = list.indexOf(/** @type {Element} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: Math.max(at, 0) - 1, Home: 0, End: -1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    /** @type {any} */ (list.at(to % list.length))?.focus();
  };
  if (!items.some(Boolean)) return null;
  return html`
    <div class="menu" ref=${box} onKeyDown=${onKey}>
      <${Button} kind=${`${text ? "" : "square"} ${kind}`} icon=${text ? undefined : icon} aria-label=${text ? undefined : label} title=${text ? undefined : label}
        aria-haspopup="menu" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>
        ${text && html`${text}<${Icon} name="down" />`}
      <//>
      ${open &&
      html`
        <div class="menu-list" popover="manual" role="menu" aria-label=${label}>
          ${items.map(
            (item) =>
              item &&
              html`
                <button type="button" role=${item.on === undefined ? "menuitem" : "menuitemcheckbox"} aria-checked=${item.on === undefined ? undefined : String(item.on)}
                  class=${`menu-item ${item.danger ? "danger" : ""}`} disabled=${item.off}
                  onClick=${() => {
                    if (item.on === undefined) shut();
                    item.act();
                  }}>
                  ${item.icon && html`<${Icon} name=${item.icon} />`}${item.on !== undefined && html`<span class="tick-mark" aria-hidden="true">${item.on ? "✓" : ""}</span>`}${item.name}
                </button>
              `,
          )}
        </div>
      `}
    </div>
  `;
}

const EDGE_PX = 8;
const GAP_PX = 4;

/** Put an open list beside its button, above the rest of the page and within the window. @param {HTMLElement} menu @param {string} side */
function put(menu, side) {
  const list = /** @type {HTMLElement} */ (menu.querySelector(".menu-list"));
  if (!list.matches(":popover-open")) list.showPopover();
  const at = menu.getBoundingClientRect();
  const [below, above] = [innerHeight - at.bottom, at.top].map((room) => room - GAP_PX - EDGE_PX);
  const up = list.offsetHeight > below && above > below;
  list.style.maxHeight = `${Math.max(0, up ? above : below)}px`;
  const left = side === "left" ? at.left : at.right - list.offsetWidth;
  list.style.left = `${Math.max(EDGE_PX, Math.min(left, innerWidth - list.offsetWidth - EDGE_PX))}px`;
  list.style.top = `${up ? at.top - GAP_PX - list.offsetHeight : at.bottom + GAP_PX}px`;
}

/** @param {{ title: string, wide?: boolean, onLeave?: () => void, onClose: () => void, children?: any }} props `onLeave` decides whether Escape closes the dialog */
export function Dialog({ title, wide, onLeave, onClose, children }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const gone = useRef(false);
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    // Long texts are shown from their beginning, also where the browser would put its cursor at the end.
    for (const text of box.current?.querySelectorAll("textarea") ?? []) {
      text.setSelectionRange(0, 0);
      text.scrollTop = 0;
    }
    // Closed before it is removed, the dialog gives the focus back; its event of closing is not the user's then.
    return () => {
      gone.current = true;
      dialog?.close();
    };
  }, []);
  /** @param {Event} e */
  const decide = (e) => {
    if (!onLeave || e.target !== box.current) return;
    e.preventDefault();
    onLeave();
  };
  // A browser lets a page prevent "cancel" only once, so the key itself is prevented too.
  const onKeyDown = (/** @type {KeyboardEvent} */ e) => {
    if (!onLeave || e.key !== "Escape" || e.defaultPrevented) return;
    e.preventDefault();
    onLeave();
  };
  return html`
    <dialog ref=${box} class=${wide ? "wide" : ""} aria-label=${title} onKeyDown=${onKeyDown} onCancel=${decide} onClose=${() => gone.current || onClose()}>
      <div class="dialog-body"><h2>${title}</h2>${children}</div>
    </dialog>
  `;
}

/**
 * A dialog that does something: fields, one button that acts, and what went wrong. What is `unsaved` is not lost unasked.
 * @param {{ title: string, act: string, danger?: boolean, wide?: boolean, off?: boolean, unsaved?: boolean, onAct: () => Promise<unknown>, onClose: () => void, children?: any }} props
 */
export function Ask({ title, act, danger, wide, off, unsaved = false, onAct, onClose, children }) {
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const [busy, setBusy] = useState(false);
  const { release, hold, leave } = useUnsaved(unsaved);
  /** @param {Event} e */
  const submit = async (e) => {
    e.preventDefault();
    setBusy(true);
    setError(undefined);
    release();
    try {
      await onAct();
      onClose();
    } catch (problem) {
      hold();
      setError(/** @type {Error} */ (problem));
      setBusy(false);
    }
  };
  return html`
    <${Dialog} title=${title} wide=${wide} onLeave=${() => leave(onClose)} onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        ${children}
        <${Failure} error=${error} />
        <div class="dialog-foot">
          <${Button} onClick=${() => leave(onClose)}>Cancel<//>
          <button class=${`button ${danger ? "danger" : "primary"}`} disabled=${busy || off}>${act}</button>
        </div>
      </form>
    <//>
  `;
}

/** Asks before unsaved changes are lost. */
export function AskDiscard() {
  const act = discarding.value;
  const stay = () => void (discarding.value = null);
  if (!act) return null;
  return html`
    <${Dialog} title="Discard your changes?" onClose=${stay}>
      <p class="soft">You have unsaved changes.</p>
      <div class="dialog-foot">
        <${Button} onClick=${stay}>Keep editing<//>
        <${Button} kind="danger" onClick=${() => (stay(), act())}>Discard changes<//>
      </div>
    <//>
  `;
}

/** Ask before a thing is deleted; children say what goes with it. @param {{ what: string, path: string, onDone: () => unknown, onClose: () => void, children?: any }} props */
export const AskDelete = ({ what, path, onDone, onClose, children }) => html`
  <${Ask} title=${`Delete ${what}?`} act="Delete" danger onAct=${async () => (await send("DELETE", path), await onDone())} onClose=${onClose}>
    <p class="soft">${children}</p>
  <//>
`;

const toasts = signal(/** @type {Toast[]} */ ([]));
const LASTS_MS = 5_000;
const LASTS_LONG_MS = 12_000; // with something to read closely, or to press
let count = 0;

/** @param {string} text @param {{ bad?: boolean, undo?: () => void, about?: string }} [how] `about` one thing only the latest is shown: what was before cannot be undone any more */
export function tell(text, how = {}) {
  const toast = { text, ...how, id: ++count };
  const others = toasts.value.filter((t) => !how.about || t.about !== how.about);
  toasts.value = [...others.slice(-3), toast];
  expire(toast.id, how.undo || how.bad ? LASTS_LONG_MS : LASTS_MS);
}

/** Let a message go after a while, but not while the pointer or the focus is on one. @param {number} id @param {number} ms */
function expire(id, ms) {
  setTimeout(() => (document.querySelector(".toasts:is(:hover, :focus-within)") ? expire(id, LASTS_MS) : drop(id)), ms);
}

/** @param {Toast} toast */
function undo(toast) {
  drop(toast.id);
  toast.undo?.();
}

// Users without a pointer need more time to reach the button.
addEventListener("keydown", (event) => {
  const within = /** @type {Element} */ (event.target).closest?.("input:not([type=checkbox]), textarea, select, .terminal, dialog");
  if (event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey || within) return;
  const last = toasts.value.findLast((t) => t.undo);
  if (!last) return;
  event.preventDefault();
  undo(last);
});

/** @param {number} id */
function drop(id) {
  toasts.value = toasts.value.filter((t) => t.id !== id);
}

/** Do something, and say how it went. @param {() => Promise<unknown>} act @param {string} done @param {() => void} [undo] @param {string} [about] */
export async function attempt(act, done, undo, about) {
  try {
    await act();
    tell(done, { undo, about });
    return true;
  } catch (e) {
    tell(/** @type {Error} */ (e).message, { bad: true });
    return false;
  }
}

export const Toasts = () => html`
  <div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map(
      (t) => html`
        <div class=${`toast ${t.bad ? "red" : ""}`} key=${t.id}>
          <p>${t.text}</p>
          ${t.undo && html`<${Button} title="Ctrl+Z" aria-keyshortcuts="Control+Z" onClick=${() => undo(t)}>Undo<//>`}
          <${Button} kind="plain square" icon="close" aria-label="Dismiss" onClick=${() => drop(t.id)} />
        </div>
      `,
    )}
  </div>
`;
