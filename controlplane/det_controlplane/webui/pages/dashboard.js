// Home: what runs for me, what waits and why, what failed, and what it all costs.
import { get, post } from "../lib/api.js";
import { ago, counted, metric, money, span } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { may } from "../lib/rights.js";
import { link } from "../lib/router.js";
import { shownName, user } from "../lib/session.js";
import { reasonOf } from "../lib/why.js";
import { html } from "../lib/view.js";
import { Button, Empty, Figures, Head, Loaded, Panel, Progress, State } from "../parts/basic.js";
import { Table } from "../parts/table.js";
import { filterText } from "./experiments_filter.js";

const LIVE_MS = 5_000;

/** @param {string} state @param {number} limit @param {AbortSignal} signal */
async function mine(state, limit, signal) {
  const filter = filterText({ more: [], text: "", state, mine: true, archived: false }, user.value?.username ?? "");
  const told = await post("/api/v1/experiments-search", { projectId: 0, limit, sort: "id=desc", filter }, { signal });
  return told.experiments.map((/** @type {any} */ row) => row.experiment);
}

/** @param {string} kind @param {number} id @param {AbortSignal} signal */
async function why(kind, id, signal) {
  const { reasons } = await get(`/api/v1/why/${kind}/${id}`, {}, { signal });
  return reasonOf(reasons, "It");
}

/** @param {AbortSignal} signal */
async function running(signal) {
  const found = await mine("ACTIVE", 8, signal);
  return Promise.all(found.map(async (/** @type {any} */ e) => ({ ...e, why: await why("experiment", e.id, signal).catch(() => "") })));
}

/** @param {AbortSignal} signal */
async function failed(signal) {
  const found = await mine("ERROR", 5, signal);
  return Promise.all(found.map(async (/** @type {any} */ e) => ({ ...e, why: await why("experiment", e.id, signal).catch(() => "") })));
}

/** @param {AbortSignal} signal */
async function figures(signal) {
  const now = new Date();
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate()).toISOString();
  const month = new Date(now.getFullYear(), now.getMonth(), 1).toISOString();
  const [pools, day, months] = await Promise.all([
    get("/api/v1/resource-pools", {}, { signal }),
    costs(today, signal),
    costs(month, signal),
  ]);
  return { pools: pools.resourcePools, today: mineOf(day), month: mineOf(months) };
}

/** @param {string} after @param {AbortSignal} signal */
const costs = async (after, signal) => (may("VIEW_CLUSTER_USAGE") ? get("/api/v1/costs/users", { after }, { signal }).catch(() => null) : null);

/** @param {any} told */
const mineOf = (told) => told && told.costs.find((/** @type {any} */ c) => c.username === user.value?.username);

export function Page() {
  const active = useLive(running, [], LIVE_MS);
  const errors = useLive(failed, [], 20_000);
  const recent = useLive((signal) => mine("COMPLETED", 6, signal), [], 15_000);
  const cluster = useLive(figures, [], LIVE_MS);
  const hour = new Date().getHours();
  const greeting = hour < 5 ? "Hello" : hour < 12 ? "Good morning" : hour < 18 ? "Good afternoon" : "Good evening";
  return html`
    <${Head} title=${`${greeting}, ${shownName(user.value)}`}><${Button} href=${link("/experiments")}>All experiments<//><//>
    <div class="stack">
      <${Loaded} of=${cluster} lines=${2}>${(/** @type {any} */ data) => html`<${Overview} ...${data} />`}<//>
      <${Panel} title="Running for you" flush>
        <${Loaded} of=${active}>${(/** @type {any[]} */ rows) => (rows.length ? html`<${Running} rows=${rows} />` : html`<${Nothing} />`)}<//>
      <//>
      <div class="columns">
        <${Panel} title="Failed" flush>
          <${Loaded} of=${errors} lines=${3}>${(/** @type {any[]} */ rows) => (rows.length ? html`<${Failed} rows=${rows} />` : html`<div class="panel-body soft">Nothing of yours failed.</div>`)}<//>
        <//>
        <${Panel} title="Completed lately" flush>
          <${Loaded} of=${recent} lines=${3}>${(/** @type {any[]} */ rows) => (rows.length ? html`<${Completed} rows=${rows} />` : html`<div class="panel-body soft">Results will be listed here.</div>`)}<//>
        <//>
      </div>
    </div>
  `;
}

/** @param {{ pools: any[], today: any, month: any }} props */
function Overview({ pools, today, month }) {
  const total = pools.reduce((sum, p) => sum + p.slotsAvailable, 0);
  const used = pools.reduce((sum, p) => sum + p.slotsUsed, 0);
  const queued = pools.reduce((sum, p) => sum + p.stats.queuedCount, 0);
  const running = pools.reduce((sum, p) => sum + p.stats.scheduledCount, 0);
  return html`
    <${Figures} of=${[
      ["Slots in use", html`${used} <span class="faint">of ${total}</span>`, html`<${Progress} value=${total ? used / total : 0} />`],
      ["Jobs running", running, html`<a href=${link("/queue")}>${counted(queued, "waits", "wait")}</a>`],
      ...(today === null ? [] : [["Your work today", money(today?.costUsd), "machines at work for you"]]),
      ...(month === null ? [] : [["Your work this month", money(month?.costUsd), "since the first"]]),
    ]} />
  `;
}

const Nothing = () => html`
  <${Empty} title="Nothing runs for you">
    <p>Start an experiment from a terminal, or open one that has ended and press “Fork”.</p>
    <pre>det experiment create adaptive.yaml .</pre>
  <//>
`;

/** @param {any} e */
const name = (e) => html`<a href=${link(`/experiments/${e.id}`)}>${e.name}</a> <span class="faint number">${e.id}</span>`;

/** @param {{ rows: any[] }} props */
const Running = ({ rows }) => html`
  <${Table} label="Running for you" total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} columns=${[
    { name: "Name", main: true, cell: name },
    { name: "State", cell: (/** @type {any} */ e) => html`<${State} state=${e.state} />` },
    { name: "Progress", cell: (/** @type {any} */ e) => html`<${Progress} value=${e.progress ?? 0} />` },
    { name: "Best", right: true, cell: (/** @type {any} */ e) => html`<span title=${e.searcherMetric}>${metric(e.bestTrialSearcherMetric)}</span>` },
    { name: "Since", right: true, cell: (/** @type {any} */ e) => span(e.startTime, null) },
    { name: "Now", wrap: true, cell: (/** @type {any} */ e) => html`<span class="soft">${e.why}</span>` },
  ]} />
`;

/** @param {{ rows: any[] }} props */
const Failed = ({ rows }) => html`
  <${Table} label="Failed" total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} columns=${[
    { name: "Name", main: true, cell: name },
    { name: "Why", wrap: true, cell: (/** @type {any} */ e) => html`<span class="soft">${e.why}</span>` },
    { name: "When", right: true, cell: (/** @type {any} */ e) => ago(e.endTime) },
  ]} />
`;

/** @param {{ rows: any[] }} props */
const Completed = ({ rows }) => html`
  <${Table} label="Completed lately" total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} columns=${[
    { name: "Name", main: true, cell: name },
    { name: "Best", right: true, cell: (/** @type {any} */ e) => html`<span title=${e.searcherMetric}>${metric(e.bestTrialSearcherMetric)}</span>` },
    { name: "Trials", right: true, cell: (/** @type {any} */ e) => e.numTrials },
    { name: "When", right: true, cell: (/** @type {any} */ e) => ago(e.endTime) },
  ]} />
`;
