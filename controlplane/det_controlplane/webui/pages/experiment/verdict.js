// What the cluster says of a configuration while it is typed: its problems, or how many trials it makes and what they cost.
import { get, post } from "../../lib/api.js";
import { counted, money } from "../../lib/format.js";
import { html, useEffect, useState } from "../../lib/view.js";

const PAUSE_MS = 400;

/** @typedef {{ fits: boolean, checking: boolean, problems: string, told: string }} Said */

/** @param {string} config @param {any} parent @returns {Said} */
export function useVerdict(config, parent) {
  const [said, setSaid] = useState(/** @type {Said} */ ({ fits: false, checking: true, problems: "", told: "" }));
  useEffect(() => {
    const ended = new AbortController();
    setSaid((was) => ({ ...was, checking: true, fits: false }));
    const timer = setTimeout(() => {
      judge(config, parent, ended.signal).then(
        (told) => setSaid({ fits: true, checking: false, problems: "", told }),
        (e) => ended.signal.aborted || setSaid({ fits: false, checking: false, problems: e.message, told: "" }),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [config]);
  return said;
}

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

/** @param {{ of: Said }} props */
export const Verdict = ({ of }) => html`
  <div class=${`notice ${of.problems ? "red" : of.checking ? "quiet" : "green"}`} role="status">
    <p>${of.problems || (of.checking ? "Checking …" : `This configuration is valid. ${of.told}`)}</p>
  </div>
`;
