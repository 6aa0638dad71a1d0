// Run one action on many things, a few at a time, and collect the results.
import { ApiError, send } from "./api.js";
import { signal } from "./view.js";

/**
 * @typedef {{ id: number, error: string }} Result
 * @typedef {{ id: number, name?: string, [more: string]: any }} Target
 * @typedef {{ name: string, done: number, of: number, stop: () => void }} Work
 */

// Small enough for hosts that end a request after half a minute.
const AT_ONCE = 50;

/** What is being done now, for those who watch. */
export const work = signal(/** @type {Work | null} */ (null));

/**
 * Do an action of the API to experiments; one that refuses stops none of the others. `name` is told meanwhile.
 * @param {string} action @param {number[]} ids @param {{ name: string, body?: object }} how @returns {Promise<Result[]>} one for each request that was sent
 */
export async function applyToMany(action, ids, { name, body = {} }) {
  /** @type {Result[]} */
  const results = [];
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  try {
    for (let at = 0; at < ids.length && !stopped; at += AT_ONCE) {
      if (ids.length > AT_ONCE) work.value = { name, done: at, of: ids.length, stop };
      results.push(...(await tried(action, ids.slice(at, at + AT_ONCE), body)));
    }
  } finally {
    work.value = null;
  }
  return results;
}

const TOGETHER = 6; // requests

/**
 * Send a request for each of some objects, several at a time. A refused request does not stop the others.
 * @template T
 * @param {string} name shown meanwhile @param {T[]} things @param {(thing: T) => string} idOf @param {(thing: T) => Promise<unknown>} act @returns {Promise<{ id: string, error: string }[]>} one for each request that was sent
 */
export async function oneByOne(name, things, idOf, act) {
  /** @type {{ id: string, error: string }[]} */
  const results = [];
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  try {
    for (let at = 0; at < things.length && !stopped; at += TOGETHER) {
      if (things.length > TOGETHER) work.value = { name, done: at, of: things.length, stop };
      results.push(...(await Promise.all(things.slice(at, at + TOGETHER).map(async (thing) => ({ id: idOf(thing), error: await refusal(act(thing)) })))));
    }
  } finally {
    work.value = null;
  }
  return results;
}

/** @param {Promise<unknown>} done @returns {Promise<string>} why it failed, if it did */
const refusal = (done) => done.then(() => "", (e) => /** @type {Error} */ (e).message);

/** @param {string} action @param {number[]} ids @param {object} body @returns {Promise<Result[]>} */
async function tried(action, ids, body) {
  try {
    const path = `/api/v1/projects/-1/experiments/${action}`;
    return (await send(action === "delete" ? "DELETE" : "POST", path, { ...body, experimentIds: ids })).results;
  } catch (e) {
    const problem = /** @type {ApiError} */ (e);
    // One that the user may not change makes the cluster refuse all of a request.
    if (problem.passing || ids.length < 2) return ids.map((id) => ({ id, error: problem.message }));
    const half = Math.ceil(ids.length / 2);
    return [...(await tried(action, ids.slice(0, half), body)), ...(await tried(action, ids.slice(half), body))];
  }
}
