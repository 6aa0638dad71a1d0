// The cluster's check of a configuration while the user types: problems, or the number of trials and their cost.
import { get, post } from "../../lib/api.js";
import { counted, metric, money } from "../../lib/format.js";
import { useChecked } from "../../parts/checked.js";

/** @typedef {{ config: string, parentId?: number, projectId?: number, template?: string }} Given */

/** @param {Given} given */
export const useVerdict = (given) => useChecked((signal) => judge(given, signal), [given.config, given.projectId, given.template]);

/** @param {Given} given @param {AbortSignal} signal */
async function judge(given, signal) {
  if (!given.config.trim()) throw new Error("Enter a configuration or load one from a file.");
  const { config: resolved } = await post("/api/v1/experiments", { ...given, validateOnly: true }, { signal });
  const planned = await post("/api/v1/preview-hp-search", { config: resolved }, { signal }).catch(() => null);
  const plan = planned && whole(planned.summary.trials, resolved.searcher);
  const slots = Number(resolved.resources.slots_per_trial ?? 1);
  const each = plan ? `${counted(plan.trials, "trial")} with ${counted(slots, "slot")}${plan.trials > 1 ? " each" : ""}. ` : "";
  return each + (await price(resolved, slots, plan, signal).catch(() => ""));
}

/**
 * Count trials, and how many whole trainings they are as long as.
 * @param {{ count: number, unit: { value?: number, maxLength: boolean } }[]} planned @param {any} searcher
 */
function whole(planned, searcher) {
  const longest = Math.max(1, ...planned.map((t) => Number(t.unit.value ?? 0)), Number(searcher.max_time ?? 0));
  const share = (/** @type {typeof planned[0]} */ t) => (t.unit.maxLength ? 1 : Number(t.unit.value) / longest);
  return {
    trials: planned.reduce((sum, t) => sum + Number(t.count), 0),
    trainings: planned.reduce((sum, t) => sum + Number(t.count) * share(t), 0),
  };
}

/** @param {any} config @param {number} slots @param {{ trials: number, trainings: number } | null} plan @param {AbortSignal} signal */
async function price(config, slots, plan, signal) {
  const { resourcePools } = await get("/api/v1/resource-pools", {}, { signal });
  const name = config.resources.resource_pool || resourcePools.find((/** @type {any} */ p) => p.defaultComputePool)?.name;
  const prices = await pricesOf(name, slots, signal);
  return prices ? priced(...prices, plan) : "No rented machines are needed.";
}

/** Return the least and the most that an hour costs with so many slots of a pool; null where it rents nothing. @param {string} pool @param {number} slots @param {AbortSignal} signal @returns {Promise<[number, number] | null>} */
async function pricesOf(pool, slots, signal) {
  const { pools } = await get("/api/v1/rented-pools", {}, { signal });
  const offers = pools.find((/** @type {any} */ p) => p.name === pool)?.offers.filter((/** @type {any} */ o) => o.slots && o.isOffered !== false) ?? [];
  if (!offers.length || !slots) return null;
  const prices = offers.map((/** @type {any} */ o) => o.priceUsdHour * (slots <= o.slots ? slots / o.slots : Math.ceil(slots / o.slots)));
  return [Math.min(...prices), Math.max(...prices)];
}

/** Say what an hour of a task costs, where machines are rented for it. @param {string} pool @param {number} slots @param {AbortSignal} signal */
export async function hourly(pool, slots, signal) {
  const prices = await pricesOf(pool, slots, signal);
  return prices ? `Costs ${money(prices[0])} to ${money(prices[1])} per hour.` : "";
}

/** Say what an hour costs, and the whole search; nobody knows yet how long a training takes. @param {number} least @param {number} most @param {{ trials: number, trainings: number } | null} plan */
export function priced(least, most, plan) {
  const hour = `One trial costs ${money(least)} to ${money(most)} per hour.`;
  if (!plan || plan.trials < 2) return hour;
  const stops = plan.trainings < plan.trials * 0.999;
  const usual = stops ? ` With early stopping, the search is about ${metric(Number(plan.trainings.toPrecision(2)))} full trainings.` : ` The search is ${counted(plan.trials, "full training")}.`;
  const worst = stops ? `, or up to ${money(plan.trials * most)} if no trial is stopped` : "";
  return `${hour}${usual} It costs ${money(plan.trainings * least)} to ${money(plan.trainings * most)} for each hour of a full training${worst}.`;
}
