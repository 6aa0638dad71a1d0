// The page of an experiment polls one number. It reads the other data only when the number changes.
import { get } from "./api.js";

// Data that does not change the revision, such as jobs of other users ahead in the queue, is read this often.
export const REST_MS = 300_000;

/**
 * Return a function that fetches what belongs to an experiment, and gives the last answer again while nothing has changed.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} fetched
 * @returns {(experiment: string | number | undefined, signal: AbortSignal) => Promise<T & { revision: string }>}
 */
export function whenChanged(fetched) {
  /** @type {(T & { revision: string }) | undefined} */
  let last;
  let at = 0;
  return async (experiment, signal) => {
    const now = experiment === undefined ? "" : (await get(`/api/v1/experiments/${encodeURIComponent(experiment)}/revision`, {}, { signal })).revision;
    if (!last || last.revision !== now || Date.now() - at > REST_MS) {
      last = { ...(await fetched(signal)), revision: now };
      at = Date.now();
    }
    return last;
  };
}
