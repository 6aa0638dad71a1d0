// What the cluster says of a configuration while it is typed: its problems, or how many trials it makes and what they cost.
import { get, post } from "../../lib/api.js";
import { counted, money } from "../../lib/format.js";
import { useChecked } from "../../parts/checked.js";

/** @param {string} config @param {any} parent */
export const useVerdict = (config, parent) => useChecked((signal) => judge(config, parent, signal), [config]);

/** @param {string} config @param {any} parent @param {AbortSignal} signal */
async function judge(config, parent, signal) {
  const body = { config, parentId: parent.id, projectId: parent.projectId, validateOnly: true };
  const { config: resolved } = await post("/api/v1/experiments", body, { signal });
  const planned = await post("/api/v1/preview-hp-search", { config: resolved }, { signal }).catch(() => null);
  const trials = planned?.summary.trials.reduce((/** @type {number} */ sum, /** @type {any} */ t) => sum + Number(t.count), 0);
  const slots = Number(resolved.resources.slots_per_trial ?? 1);
  const each = trials ? `${counted(trials, "trial")} with ${counted(slots, "slot")} each. ` : "";
  return each + (await price(resolved, slots, signal).catch(() => ""));
}

/** @param {any} config @param {number} slots @param {AbortSignal} signal */
async function price(config, slots, signal) {
  const [{ pools }, { resourcePools }] = await Promise.all([get("/api/v1/rented-pools", {}, { signal }), get("/api/v1/resource-pools", {}, { signal })]);
  const name = config.resources.resource_pool || resourcePools.find((/** @type {any} */ p) => p.defaultComputePool)?.name;
  const offers = pools.find((/** @type {any} */ p) => p.name === name)?.offers.filter((/** @type {any} */ o) => o.slots && o.isOffered !== false) ?? [];
  if (!offers.length || !slots) return "No rented machine is needed.";
  const prices = offers.map((/** @type {any} */ o) => o.priceUsdHour * (slots <= o.slots ? slots / o.slots : Math.ceil(slots / o.slots)));
  return `An hour of one trial costs ${money(Math.min(...prices))} to ${money(Math.max(...prices))}.`;
}
