// The trials of an experiment, as several pages need them.
import { get } from "./api.js";
import { useLive } from "./live.js";

/** All trials, with what tables and pictures show of them: a small part of each, as there may be thousands. @param {any} experiment */
export function useTrials(experiment) {
  return useLive(
    async (signal) => {
      const { trials } = await get(`/api/v1/experiments/${experiment.id}/search`, { whole: true }, { signal });
      return trials.map((/** @type {any} */ t) => ({ ...t, searcherMetricValue: t.value, totalBatchesProcessed: t.batches }));
    },
    [experiment.id, experiment.state],
    0,
    experiment.revision,
  );
}

/** @typedef {{ metric: string, trials: number, best: number, hyperparameters: { name: string, importance: number }[], note: string }} Importances */

/** The importance of each hyperparameter, the most important first. @param {any} experiment */
export function useImportance(experiment) {
  return useLive((signal) => /** @type {Promise<Importances>} */ (get(`/api/v1/experiments/${experiment.id}/importance`, {}, { signal })), [experiment.id, experiment.state], 0, experiment.revision);
}

/** Return the state that pages show: the search may have stopped a trial early, or may let it wait without slots. @param {any} trial @returns {string} */
export const shownState = (trial) => (trial.stoppedEarly ? "STATE_STOPPED_EARLY" : trial.waitsForSearch ? "STATE_WAITING" : (trial.shownState ?? trial.state));

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
