// The trials of an experiment, as several pages need them.
import { get } from "./api.js";
import { useLive } from "./live.js";

const MOST = 2000;

/** @param {any} experiment */
export function useTrials(experiment) {
  return useLive(
    async (signal) => (await get(`/api/v1/experiments/${experiment.id}/trials`, { limit: MOST, sortBy: "SORT_BY_ID" }, { signal })).trials,
    [experiment.id, experiment.state],
    0,
    experiment.revision,
  );
}

/** Flatten nested hyperparameters to `a.b`. @param {any} hparams @param {string} [under] @returns {Record<string, any>} */
export function flat(hparams, under = "") {
  /** @type {Record<string, any>} */
  const found = {};
  for (const [name, value] of Object.entries(hparams ?? {})) {
    if (value && typeof value === "object" && !Array.isArray(value)) Object.assign(found, flat(value, `${under}${name}.`));
    else found[under + name] = value;
  }
  return found;
}

/** Names of hyperparameters that differ between trials. @param {any[]} trials */
export function varied(trials) {
  const values = new Map();
  for (const trial of trials) {
    for (const [name, value] of Object.entries(flat(trial.hparams))) {
      if (!values.has(name)) values.set(name, new Set());
      values.get(name).add(JSON.stringify(value));
    }
  }
  return [...values].filter(([, seen]) => seen.size > 1).map(([name]) => name);
}
