// Scripts that are fetched when somebody needs them: libraries with their style sheets, and parts of pages.
import { html, useEffect, useState } from "./view.js";

const PAUSES_MS = [300, 1_000, 3_000];

/** Try again a few times before giving up: networks change meanwhile, as those of phones do. @template T @param {() => Promise<T>} act @returns {Promise<T>} */
export async function withRetries(act) {
  for (const pause of PAUSES_MS) {
    try {
      return await act();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  return act();
}

/** Return what fetches a library once. @template T @param {() => Promise<T>} load @param {URL} css @returns {() => Promise<T>} */
export function library(load, css) {
  /** @type {Promise<T> | undefined} */
  let fetched;
  return () => {
    fetched ??= withRetries(() => Promise.all([load(), style(css.href)])).then(
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
 * @returns its `soon` fetches what will be needed
 */
export function later(load, name, wait) {
  /** @type {any} */
  let part;
  const fetched = async () => {
    part ??= (await withRetries(load))[name];
  };
  const Later = (/** @type {any} */ { when = true, ...props }) => {
    const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
    const [drawn, draw] = useState(!!part);
    useEffect(() => {
      if (drawn || !when) return;
      let here = true;
      fetched().then(
        () => here && draw(true),
        () => here && setError(new Error("A part of this page did not load. The cluster may have been upgraded: load it again.")),
      );
      return () => {
        here = false;
      };
    }, [when]);
    if (error) throw error;
    if (part) return html`<${part} ...${props} />`;
    return wait && when ? html`<${wait} />` : null;
  };
  return Object.assign(Later, { soon: () => void fetched().catch(() => {}) });
}

/** Return the value of a token of the style sheets. @param {string} name */
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
