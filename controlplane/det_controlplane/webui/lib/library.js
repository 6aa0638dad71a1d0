// Scripts that are fetched when somebody needs them: libraries with their style sheets, and parts of pages.
import { holds } from "./router.js";
import { html, useEffect, useState } from "./view.js";

const PAUSES_MS = [300, 1_000, 3_000, 10_000];
// The number of page reloads since this script last loaded. The count also ends the reloads if other scripts load each
// time.
const ANEW = "loaded-anew ";

/**
 * Import scripts; those that did not arrive are asked for again, as networks change.
 *
 * Browsers from before the summer of 2026 remember that a script failed for as long as the page is open. There the page
 * is loaded anew, once the cluster answers and where nothing is lost by that.
 * @template T @param {() => Promise<T>} load @param {string} [name] of what is loaded @returns {Promise<T>}
 */
export async function imported(load, name = String(load)) {
  let found;
  try {
    found = await load().catch(async () => {
      await pause(PAUSES_MS[0]);
      return load();
    });
  } catch (e) {
    if (await loadAnew(ANEW + name)) return new Promise(() => {}); // this page ends
    throw e;
  }
  sessionStorage.removeItem(ANEW + name);
  return found;
}

/** Tell whether the page is being loaded anew. @param {string} key of how often it was */
async function loadAnew(key) {
  const times = Number(sessionStorage.getItem(key) ?? 0);
  if (times > 1) return false;
  for (const ms of PAUSES_MS) {
    await pause(ms);
    const answer = await fetch(location.href).catch(() => null);
    if (!answer?.ok) continue;
    if (holds()) return false;
    sessionStorage.setItem(key, String(times + 1));
    location.reload();
    return true;
  }
  return false;
}

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Return what fetches a library once. @template T @param {() => Promise<T>} load @param {URL} css @returns {() => Promise<T>} */
export function library(load, css) {
  /** @type {Promise<T> | undefined} */
  let fetched;
  return () => {
    fetched ??= imported(() => Promise.all([load(), style(css.href)]), css.href).then(
      ([module]) => module,
      (e) => {
        fetched = undefined;
        throw e;
      },
    );
    return fetched;
  };
}

/** @param {string} href */
function style(href) {
  const sheet = document.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = href;
  return new Promise((resolve, reject) => {
    sheet.onload = resolve;
    sheet.onerror = reject;
    document.head.append(sheet);
  });
}

/**
 * Return a component of a script that is fetched once it is shown `when` something is true; from then on it is there.
 * @param {() => Promise<any>} load @param {string} name that the script exports it by @param {any} [wait] component that is shown meanwhile
 * @returns its `soon` fetches what may be needed
 */
export function later(load, name, wait) {
  /** @type {any} */
  let part;
  const fetched = async () => {
    part ??= (await imported(load))[name];
  };
  const Later = (/** @type {any} */ { when = true, ...props }) => {
    const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
    const [drawn, draw] = useState(!!part);
    useEffect(() => {
      if (drawn || !when) return;
      let here = true;
      fetched().then(
        () => here && draw(true),
        () => here && setError(new Error("A part of this page did not load. The cluster may have been upgraded. Reload the page.")),
      );
      return () => {
        here = false;
      };
    }, [when]);
    if (error) return html`<div class="notice red" role="alert"><p>${error.message}</p></div>`;
    if (part) return html`<${part} ...${props} />`;
    return wait && when ? html`<${wait} />` : null;
  };
  const keep = (/** @type {any} */ module) => void (part ??= module[name]);
  return Object.assign(Later, { soon: () => void load().then(keep, () => {}) });
}

/** Return the value of a token of the style sheets. @param {string} name */
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
