// The cluster's check of a text while the user types.
import { lapsed } from "../lib/session.js";
import { html, useEffect, useState } from "../lib/view.js";

const PAUSE_MS = 400;

/** @typedef {{ fits: boolean, checking: boolean, problems: string, told: string }} Said */

/**
 * Ask about what was typed, when typing pauses; `ask` gives what there is to tell, or throws the problems.
 * @param {(signal: AbortSignal) => Promise<string>} ask @param {unknown[]} keys @returns {Said}
 */
export function useChecked(ask, keys) {
  const [said, setSaid] = useState(/** @type {Said} */ ({ fits: false, checking: true, problems: "", told: "" }));
  useEffect(() => {
    const ended = new AbortController();
    setSaid((was) => ({ ...was, checking: true, fits: false }));
    const timer = setTimeout(() => {
      ask(ended.signal).then(
        (told) => setSaid({ fits: true, checking: false, problems: "", told }),
        (e) => ended.signal.aborted || setSaid({ fits: false, checking: false, problems: e.message, told: "" }),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [...keys, lapsed.value]);
  return said;
}

/** @param {{ of: Said, what?: string }} props */
export const Verdict = ({ of, what = "This is valid." }) => html`
  <div class=${`notice ${of.problems ? "red" : of.checking ? "quiet" : "green"}`} role="status">
    <p>${of.problems || (of.checking ? "Checking …" : `${what} ${of.told}`)}</p>
  </div>
`;
