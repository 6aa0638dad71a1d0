// Paths below /det: the page always shows the path in the address bar.
import { signal, useEffect, useLayoutEffect, useRef, useState } from "./view.js";

export const ROOT = "/det";

/** @typedef {{ path: string, query: URLSearchParams }} Place */

/** @returns {Place} */
function here() {
  const path = location.pathname.slice(ROOT.length).replace(/\/+$/, "") || "/";
  return { path, query: new URLSearchParams(location.search) };
}

export const place = signal(here());
// The position of this page in the browser's history.
let at = history.state?.at ?? 0;

/** Go to a page. A page with unsaved changes asks the user first. @param {string} to an address below /det @param {{ replace?: boolean }} [how] */
export function go(to, { replace = false } = {}) {
  const address = ROOT + to;
  if (address === location.pathname + location.search) return;
  afterAsking(() => {
    if (!replace) at += 1;
    history[replace ? "replaceState" : "pushState"]({ at }, "", address);
    const was = place.value.path;
    place.value = here();
    if (place.value.path !== was) scrollTo(0, 0);
  });
}

/** Change the query of this page; empty values vanish. @param {Record<string, string | number | null | undefined>} change */
export function ask(change) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(change)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  go(place.value.path + (text ? `?${text}` : ""), { replace: true });
}

/** @param {string} path @returns {string} the address of a page, for links */
export const link = (path) => ROOT + path;

/** Match `/experiments/:id/:tab?` to a path. @param {string} pattern @param {string} path @returns {Record<string, string> | null} */
export function matched(pattern, path) {
  const wanted = pattern.split("/").slice(1);
  const given = path.split("/").slice(1);
  if (given.length > wanted.length) return null;
  /** @type {Record<string, string>} */
  const found = {};
  for (const [i, part] of wanted.entries()) {
    const value = given[i];
    if (part.startsWith(":")) {
      if (value === undefined && !part.endsWith("?")) return null;
      try {
        if (value !== undefined) found[part.slice(1).replace("?", "")] = decodeURIComponent(value);
      } catch {
        return null;
      }
    } else if (part !== value) return null;
  }
  return found;
}

/** Follow links to our own pages without loading anything anew. */
export function listen() {
  history.replaceState({ at }, "");
  addEventListener("popstate", (event) => {
    const to = event.state?.at ?? 0;
    const steps = to - at;
    if (steps && holds()) {
      // Return to the address of this page while the question is open.
      history.go(-steps);
      return afterAsking(() => history.go(steps));
    }
    at = to;
    place.value = here();
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const anchor = event.target instanceof Element && event.target.closest("a");
    if (!anchor || anchor.target || anchor.hasAttribute("download") || anchor.origin !== location.origin) return;
    if (anchor.pathname !== ROOT && !anchor.pathname.startsWith(`${ROOT}/`)) return;
    event.preventDefault();
    go(anchor.pathname.slice(ROOT.length) + anchor.search);
  });
}

/** What was typed and not saved: pages ask before it is lost. @type {Set<object>} */
const holders = new Set();

/** Hold the page while something on it is not saved. `leave` asks only about these changes. @param {boolean} changed */
export function useUnsaved(changed) {
  const own = useRef({}).current;
  const release = () => void holders.delete(own);
  const hold = () => void (changed && holders.add(own));
  // Before the next key is pressed, which may leave the page.
  useLayoutEffect(() => (changed ? hold() : release()), [changed]);
  useEffect(() => release, []);
  const leave = (/** @type {() => void} */ act) => afterAsking(act, [own]);
  return { release, hold, leave };
}

/**
 * Hold the page while a text is neither what is stored nor what was saved here, which is stored before it is read again.
 * @param {string} text
 * @param {string} stored
 */
export function useUnsavedText(text, stored) {
  const [saved, setSaved] = useState(stored);
  const changed = text !== stored && text !== saved;
  const { release, hold } = useUnsaved(changed);
  useEffect(() => setSaved(stored), [stored]);
  useEffect(hold, [saved]); // what was typed while another text was sent
  return { changed, release, saved: () => (setSaved(text), release()) };
}

/** Tell whether something is not saved. */
export const holds = () => holders.size > 0;

/** The action that would discard unsaved changes, while the user is asked about it. @type {{ value: (() => void) | null }} */
export const discarding = signal(null);

/** Act now if no changes would be lost, else after the user agreed to lose them. @param {() => void} act @param {Iterable<object>} [losing] the holders of the changes */
export function afterAsking(act, losing = [...holders]) {
  const held = [...losing].filter((holder) => holders.has(holder));
  if (!held.length) return act();
  discarding.value = () => {
    for (const holder of held) holders.delete(holder);
    act();
  };
}

addEventListener("beforeunload", (event) => {
  if (holders.size) event.preventDefault();
});
