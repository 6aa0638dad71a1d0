// The machines that a pool rents and rented, their costs, and its offers.
import { get, post } from "../lib/api.js";
import { counted, duration, moment, money, span } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { usePaged } from "../lib/paged.js";
import { may } from "../lib/rights.js";
import { ask, place } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { Bones, Button, Failure, Figures, Pairs, State, Toggle } from "../parts/basic.js";
import { Ask, Dialog, Menu } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { Span } from "../parts/time.js";

const HOUR_MS = 3_600_000;
const HOURS = 24;
const LIVE_MS = 30_000;
/** @type {[string, string][]} */
const LIFE = [
  ["Requested", "requestedAt"], ["Launched", "launchedAt"], ["Agent connected", "registeredAt"], ["Draining", "drainingSince"], ["Terminating", "terminatingSince"], ["Ended", "endedAt"],
];

/** @param {{ rented: any, instances: any[], reload: () => Promise<void> }} props */
export function Rented({ rented, instances, reload }) {
  const all = place.value.query.has("ended");
  const toggle = html`<${Toggle} on=${all} onClick=${() => ask({ ended: all ? "" : "1" })}>Show ended<//>`;
  return html`
    <div class="panel-head"><h3>Machines</h3>${toggle}</div>
    ${all ? html`<${Every} pool=${rented.name} reload=${reload} />` : html`<${Now} instances=${instances} reload=${reload} />`}
    <h3 class="panel-head">Offers</h3>
    <${Offers} rented=${rented} />
  `;
}

/** @param {{ instances: any[], reload: () => Promise<void> }} props */
function Now({ instances, reload }) {
  if (!instances.length) return html`<p class="panel-body soft">No machines. The pool rents machines for queued jobs and releases them when they are idle.</p>`;
  return html`<${Machines} total=${instances.length} row=${(/** @type {number} */ i) => instances[i]} reload=${reload} />`;
}

/** Machines that the pool has or had, the latest first. @param {{ pool: string, reload: () => Promise<void> }} props */
function Every({ pool, reload }) {
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get("/api/v1/instances", { pool, all: true, offset, limit, sortBy: "SORT_BY_START_TIME", orderBy: "ORDER_BY_DESC" }, { signal });
      return { rows: told.instances, total: told.pagination.total };
    },
    [pool],
  );
  if (found.total === undefined) return found.error ? html`<${Failure} error=${found.error} retry=${found.reload} />` : html`<${Bones} />`;
  if (!found.total) return html`<p class="panel-body soft">No machines yet.</p>`;
  return html`<${Machines} total=${found.total} row=${found.row} onSight=${found.onSight} reload=${async () => void (await Promise.all([found.reload(), reload()]))} />`;
}

/** @param {any} i a machine */
const nameOf = (i) => i.cloudId || i.id.slice(0, 8);

/** @param {{ total: number, row: (index: number) => any, onSight?: (first: number, last: number) => void, reload: () => Promise<void> }} props */
function Machines({ total, row, onSight, reload }) {
  const [doomed, setDoomed] = useState(/** @type {any} */ (null));
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const columns = [
    { name: "Machine", main: true, cell: (/** @type {any} */ i) => html`<button type="button" class="link" onClick=${() => setShown(i)}>${nameOf(i)}</button>` },
    { name: "State", cell: (/** @type {any} */ i) => html`<${State} state=${i.state} />` },
    { name: "Type", cell: (/** @type {any} */ i) => `${i.machineType} ${capacity(i)}` },
    { name: "Location", cell: (/** @type {any} */ i) => `${i.provider} ${i.zone || i.region}` },
    { name: "Price", right: true, cell: (/** @type {any} */ i) => `${money(i.priceUsdHour)} / h` },
    { name: "Cost", right: true, cell: (/** @type {any} */ i) => money(i.costUsd) },
    { name: "Uptime", right: true, cell: (/** @type {any} */ i) => html`<span title=${`since ${moment(i.launchedAt ?? i.requestedAt)}`}><${Span} from=${i.launchedAt ?? i.requestedAt} to=${i.endedAt} /></span>` },
    { name: "Reason", wrap: true, cell: (/** @type {any} */ i) => html`<span class="soft">${i.reason ?? ""}</span>` },
    may("UPDATE_AGENTS") && { name: "", right: true, cell: (/** @type {any} */ i) => !i.endedAt && html`<${Menu} label=${`Actions on ${nameOf(i)}`} kind="plain" items=${[{ name: "Release", danger: true, act: () => setDoomed(i) }]} />` },
  ];
  return html`
    <${Table} label="Machines" columns=${columns.filter(Boolean)} total=${total} row=${row} onSight=${onSight} />
    ${shown && html`<${Life} of=${shown} onClose=${() => setShown(null)} />`}
    ${doomed &&
    html`
      <${Ask} title="Release this machine?" act="Release" danger onClose=${() => setDoomed(null)}
        onAct=${async () => {
          await post(`/api/v1/instances/${doomed.id}/terminate`);
          await reload();
        }}>
        <p class="soft">Its work restarts on another machine from the last checkpoint.</p>
      <//>
    `}
  `;
}

/** @param {any} of an offer or a machine */
const capacity = (of) => String(of.capacity).replaceAll("_", "-");

/** The life of a machine, and its console output. @param {{ of: any, onClose: () => void }} props */
function Life({ of, onClose }) {
  const found = useLive((signal) => get(`/api/v1/instances/${of.id}`, {}, { signal }), [of.id]);
  const printed = found.data?.instance.console;
  return html`
    <${Dialog} title=${`Machine ${nameOf(of)}`} wide onClose=${onClose}>
      <${Pairs} of=${[
        ["State", html`<${State} state=${of.state} />`],
        of.reason && ["Reason", of.reason],
        ["Type", `${of.machineType} ${capacity(of)}, ${counted(of.slots, "slot")}`],
        ["Location", `${of.provider} ${of.zone || of.region}`],
        ["Cost", `${money(of.costUsd)} at ${money(of.priceUsdHour)} per hour`],
        of.agentId && ["Agent", of.agentId],
        ...LIFE.filter(([, at]) => of[at]).map(([name, at]) => [name, `${moment(of[at])}${at === "requestedAt" ? "" : `, after ${span(of.requestedAt, of[at])}`}`]),
      ].filter(Boolean)} />
      ${printed && html`<h3>Console output</h3><pre class="source" tabindex="0">${printed}</pre>`}
      <div class="dialog-foot"><${Button} onClick=${onClose}>Close<//></div>
    <//>
  `;
}

/** @param {{ rented: any, month: any }} props */
export function Costs({ rented, month }) {
  const limits = [
    rented.maxInstances !== null && `${rented.maxInstances} at most`,
    rented.minInstances > 0 && `${rented.minInstances} at least`,
    rented.warmInstances > 0 && `${rented.warmInstances} kept warm`,
  ].filter(Boolean);
  return html`
      ${rented.priceProblems.map((/** @type {any} */ p) => html`<div class="notice amber"><p>Prices of ${p.provider} ${p.region} come from the price list of ${rented.priceListOf}: ${p.problem}</p></div>`)}
      <${Figures} of=${[
        ["Machines", rented.instances, limits.join(", ")],
        ["Current cost", html`${money(rented.priceUsdHour)} <span class="faint">per hour</span>`, rented.maxHourlyCost !== null && `${money(rented.maxHourlyCost)} at most`],
        ["This month", money(month?.costUsd), month && `${money(month.workingUsd)} busy, ${money(month.idleUsd)} idle`],
        ["Last 24 hours", html`<${PerHour} pool=${rented.name} />`],
      ]} />
  `;
}

/** What machines cost in an hour that begins at a time. @param {any[]} machines @param {number} from @param {number} now */
function costOf(machines, from, now) {
  return machines.reduce((sum, m) => {
    const begin = Math.max(Date.parse(m.launchedAt ?? "") || Infinity, from);
    const end = Math.min(m.endedAt ? Date.parse(m.endedAt) : now, from + HOUR_MS);
    return sum + (Math.max(0, end - begin) / HOUR_MS) * m.priceUsdHour;
  }, 0);
}

/** When each of the last hours began. @param {number} now */
const hoursBefore = (now) => Array.from({ length: HOURS }, (_, i) => (Math.floor(now / HOUR_MS) - (HOURS - 1 - i)) * HOUR_MS);

/** A bar for what each of the last hours cost. @param {{ pool: string }} props */
function PerHour({ pool }) {
  const found = useLive(async (signal) => (await get("/api/v1/instances", { pool, endedAfter: new Date(hoursBefore(Date.now())[0]).toISOString(), limit: -1 }, { signal })).instances, [pool], LIVE_MS);
  if (!found.data) return null;
  const now = Date.now();
  const hours = hoursBefore(now);
  const costs = hours.map((from) => costOf(found.data ?? [], from, now));
  const [most, total] = [Math.max(...costs), costs.reduce((sum, c) => sum + c, 0)];
  return html`
    ${money(total)}
    ${most > 0 && html`<div class="hours" role="img" aria-label=${`Cost per hour for the last ${HOURS} hours, ${money(most)} at most`}>${costs.map((cost, i) => html`<span title=${`${moment(new Date(hours[i]).toISOString())}: ${money(cost)}`} style=${{ height: `${cost && Math.max(8, (cost / most) * 100)}%` }} />`)}</div>`}
  `;
}

/** @param {{ rented: any }} props */
function Offers({ rented }) {
  const columns = [
    { name: "Offer", main: true, cell: (/** @type {any} */ o) => `${o.machineType} ${capacity(o)}` },
    { name: "Location", cell: (/** @type {any} */ o) => `${o.provider} ${o.zone || o.region}` },
    { name: "Slots", right: true, cell: (/** @type {any} */ o) => o.slots },
    { name: "Hardware", cell: hardware },
    { name: "Price", right: true, cell: (/** @type {any} */ o) => html`<span title=${priceFrom(o, rented)}>${money(o.priceUsdHour)} / h</span>` },
    { name: "Unavailable", wrap: true, cell: (/** @type {any} */ o) => html`<span class="soft">${refusal(o, rented.cooldowns)}</span>` },
  ];
  const rows = rented.offers.map((/** @type {any} */ o, /** @type {number} */ i) => ({ ...o, id: i }));
  return html`<${Table} label="Offers" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} />`;
}

/** @param {any} offer */
const hardware = (offer) =>
  offer.vcpus ? [offer.gpu && `${offer.gpu} ${offer.gpuMemoryGib} GiB`, `${offer.vcpus} vCPU`, `${offer.memoryGib} GiB`].filter(Boolean).join(", ") : "";

/** @param {any} offer @param {any} rented */
function priceFrom(offer, rented) {
  if (offer.priceFrom === "cloud") return `Reported by the cloud at ${moment(offer.priceReadAt)}`;
  return offer.priceFrom === "list" ? `From the price list of ${rented.priceListOf}` : "From the pool configuration";
}

/** @param {any} offer @param {any[]} cooldowns */
function refusal(offer, cooldowns) {
  const fits = (/** @type {any} */ c) =>
    ["provider", "region", "zone", "machineType", "capacity"].every((name) => !c[name] || c[name] === offer[name]);
  const found = cooldowns.find(fits);
  if (!offer.isOffered) return "Not available in this location.";
  if (!found) return "";
  const times = found.failures > 1 ? ` Failed ${found.failures} times.` : "";
  const left = found.until ? (Date.parse(found.until) - Date.now()) / 1000 : 0;
  const again = found.until ? ` Retry in ${duration(left)}.` : " No retry until the pool is resumed.";
  return `${found.sentence}${/[.!?]$/.test(found.sentence) ? "" : "."}${times}${again}`;
}
