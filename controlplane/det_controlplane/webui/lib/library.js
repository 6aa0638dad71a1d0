// Libraries that are fetched when somebody needs them, with their style sheets.
import { persist } from "./persist.js";

/** Return what fetches a library once. @template T @param {() => Promise<T>} load @param {URL} css @returns {() => Promise<T>} */
export function library(load, css) {
  /** @type {Promise<T> | undefined} */
  let fetched;
  return () => {
    fetched ??= persist(() => Promise.all([load(), style(css.href)])).then(
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

/** Return the value of a token of the style sheets. @param {string} name */
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
