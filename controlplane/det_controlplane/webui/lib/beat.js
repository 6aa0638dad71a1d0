// When a page asks the cluster again: everything on it together, not in hidden tabs, and once for all while nothing answers.
import { signal } from "./view.js";

const TOGETHER_MS = 400; // what is due that soon is asked along
const FIRST_MS = 2_000;
const LONGEST_MS = 45_000;

/** @typedef {{ due: number, failed: boolean, asking: number, heard: number, failing: boolean, run: () => void }} Asker `heard`: how many answers there were when it began to fail */

/** Why nothing answers, and since when what is shown may be old; null while the cluster answers. */
export const lost = signal(/** @type {{ error: Error, since: number } | null} */ (null));

/** @type {Set<Asker>} */
const askers = new Set();
let timer = 0;
let pause = FIRST_MS;
let next = Infinity; // when somebody tries whether the cluster answers again
let answers = 0;

document.addEventListener("visibilitychange", arm);
addEventListener("online", retry);

/** @param {() => void} run @returns {Asker} */
export function join(run) {
  const asker = { due: Infinity, failed: false, asking: 0, heard: 0, failing: false, run };
  askers.add(asker);
  return asker;
}

/** @param {Asker} asker */
export function leave(asker) {
  askers.delete(asker);
  arm();
}

/** Ask again later; 0: not by itself. @param {Asker} asker @param {number} ms */
export function again(asker, ms) {
  asker.due = ms ? Date.now() + ms : Infinity;
  arm();
}

/** Note that a question begins; `settled` ends it. @param {Asker} asker */
export function asks(asker) {
  asker.asking += 1;
  if (!asker.failing) asker.heard = answers;
}

/** Note that a question was answered, or that it failed. @param {Asker} asker */
export function settled(asker) {
  asker.asking -= 1;
}

/** Note that the cluster answered: whatever waited for that asks now. @param {Asker} asker */
export function answered(asker) {
  answers += 1;
  asker.failed = asker.failing = false;
  if (!lost.value) return;
  lost.value = null;
  pause = FIRST_MS;
  next = Infinity;
  for (const one of [...askers]) if (one.failed && !one.asking) one.run();
  arm();
}

/** Note that it did not, so that one question tries for all; false where others were answered meanwhile, and it is the asker's alone. @param {Asker} asker @param {Error} error */
export function failed(asker, error) {
  asker.failing = true;
  asker.failed = answers === asker.heard;
  if (!asker.failed) return false;
  asker.due = Infinity;
  if (!lost.value) lost.value = { error, since: Date.now() };
  if (next === Infinity) later();
  arm();
  return true;
}

function later() {
  next = Date.now() + pause;
  pause = Math.min(2 * pause, LONGEST_MS);
}

/** Ask all that failed, now. */
export function retry() {
  for (const asker of [...askers]) if (asker.failed) asker.run();
}

function arm() {
  clearTimeout(timer);
  if (document.hidden) return;
  const first = lost.value ? next : Math.min(...[...askers].map((a) => a.due));
  if (first < Infinity) timer = setTimeout(beat, Math.max(0, first - Date.now()));
}

function beat() {
  if (document.hidden) return;
  const due = [...askers].filter((a) => a.due <= Date.now() + TOGETHER_MS);
  if (lost.value) {
    const waiting = [...askers].filter((a) => a.failed);
    if (waiting.length) {
      later();
      // Perhaps only what failed is not answered: something else tries as well.
      return go([...waiting.filter((a) => !a.asking).slice(0, 1), ...due.slice(0, 1)]);
    }
    lost.value = null; // all that failed has left the page
    next = Infinity;
    pause = FIRST_MS;
  }
  go(due);
}

/** @param {Asker[]} those */
function go(those) {
  for (const asker of those) {
    asker.due = Infinity; // until its answer says when
    asker.run();
  }
  arm();
}
