// Home: the user's running, waiting and failed work, and its costs.
import { get, post } from "../lib/api.js";
import { metric, money } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { maySomewhere } from "../lib/rights.js";
import { link } from "../lib/router.js";
import { shownName, user } from "../lib/session.js";
import { isOver, KINDS, listed, served, stateOf } from "../lib/tasks.js";
import { toldOf } from "../lib/why.js";
import { html } from "../lib/view.js";
import { Button, Empty, Figures, Head, Loaded, Panel, Progress, State } from "../parts/basic.js";
import { Table } from "../parts/table.js";
import { Ago, Span } from "../parts/time.js";
import { filterText } from "./experiments_filter.js";

const LIVE_MS = 5_000;

/** @typedef {{ rows: any[], total: number }} Found the first, and how many there are */

/** @param {string} state @param {number} limit @param {AbortSignal} signal */
async function mine(state, limit, signal) {
  const filter = filterText({ state, mine: true });
  const told = await post("/api/v1/experiments-search", { projectId: 0, limit, sort: "id=desc", filter }, { signal });
  return { rows: told.experiments.map((/** @type {any} */ row) => row.experiment), total: told.pagination.total };
}

/** @param {string} kind @param {number} id @param {AbortSignal} signal */
async function why(kind, id, signal) {
  const { reasons } = await get(`/api/v1/why/${kind}/${id}`, {}, { signal });
  return toldOf(reasons, "It");
}

/** Find experiments of mine, and say why each is as it is. @param {string} state @param {number} limit @param {AbortSignal} signal */
async function explained(state, limit, signal) {
  const { rows, total } = await mine(state, limit, signal);
  return { rows: await Promise.all(rows.map(async (/** @type {any} */ e) => ({ ...e, why: await why("experiment", e.id, signal).catch(() => "") }))), total };
}

/** @param {AbortSignal} signal */
async function tasks(signal) {
  const told = await Promise.all(Object.keys(KINDS).map((kind) => listed(kind, 20, signal, { userIds: user.value?.id })));
  return told.flat().filter((t) => !isOver(t) && t.userId === user.value?.id);
}

/** @param {AbortSignal} signal */
async function figures(signal) {
  const now = new Date();
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate()).toISOString();
  const month = new Date(now.getFullYear(), now.getMonth(), 1).toISOString();
  const [pools, day, months] = await Promise.all([
    get("/api/v1/resource-pools", {}, { signal }),
    cost(today, signal),
    cost(month, signal),
  ]);
  return { pools: pools.resourcePools, today: day, month: months };
}

/** @param {string} after @param {AbortSignal} signal */
const cost = async (after, signal) => (await get("/api/v1/costs/me", { after }, { signal })).costs[0]?.costUsd ?? 0;

export function Page() {
  const active = useLive((signal) => explained("ACTIVE", 8, signal), [], LIVE_MS);
  const open = useLive(tasks, [], 15_000);
  const errors = useLive((signal) => explained("ERROR", 5, signal), [], 20_000);
  const recent = useLive((signal) => mine("COMPLETED", 6, signal), [], 15_000);
  const cluster = useLive(figures, [], LIVE_MS);
  const hour = new Date().getHours();
  const greeting = hour < 5 ? "Hello" : hour < 12 ? "Good morning" : hour < 18 ? "Good afternoon" : "Good evening";
  return html`
    <${Head} title=${`${greeting}, ${shownName(user.value)}`}>
      <${Button} href=${link("/experiments")}>All experiments<//>
      ${maySomewhere("CREATE_EXPERIMENT") && html`<${Button} kind="primary" icon="plus" href=${link("/experiments/new")}>New experiment<//>`}
    <//>
    <div class="stack">
      <${Loaded} of=${cluster} lines=${2}>${(/** @type {any} */ data) => html`<${Overview} ...${data} />`}<//>
      <${Panel} title="Your running experiments" actions=${allOf("ACTIVE", active.data)} flush>
        <${Loaded} of=${active}>${(/** @type {Found} */ { rows }) => (rows.length ? html`<${Running} rows=${rows} />` : html`<${Nothing} />`)}<//>
      <//>
      ${!!open.data?.length && html`<${Panel} title="Your tasks" flush><${Open} rows=${open.data} /><//>`}
      <div class="columns">
        <${Panel} title="Failed" actions=${allOf("ERROR", errors.data)} flush>
          <${Loaded} of=${errors} lines=${3}>${(/** @type {Found} */ { rows }) => (rows.length ? html`<${Failed} rows=${rows} />` : html`<div class="panel-body soft">No failed experiments.</div>`)}<//>
        <//>
        <${Panel} title="Recently completed" actions=${allOf("COMPLETED", recent.data)} flush>
          <${Loaded} of=${recent} lines=${3}>${(/** @type {Found} */ { rows }) => (rows.length ? html`<${Completed} rows=${rows} />` : html`<div class="panel-body soft">No completed experiments yet.</div>`)}<//>
        <//>
      </div>
    </div>
  `;
}

/** Lead to all of them where there are more than are shown. @param {string} state @param {Found} [found] */
const allOf = (state, found) => found && found.total > found.rows.length && html`<${Button} href=${link(`/experiments?state=${state}&mine=1`)}>All ${found.total.toLocaleString("en")}<//>`;

/** @param {{ pools: any[], today: number, month: number }} props */
function Overview({ pools, today, month }) {
  const total = pools.reduce((sum, p) => sum + p.slotsAvailable, 0);
  const used = pools.reduce((sum, p) => sum + p.slotsUsed, 0);
  const queued = pools.reduce((sum, p) => sum + p.stats.queuedCount, 0);
  const running = pools.reduce((sum, p) => sum + p.stats.scheduledCount, 0);
  return html`
    <${Figures} of=${[
      ["Slots in use", html`${used} <span class="faint">of ${total}</span>`, html`<${Progress} value=${total ? used / total : 0} what="in use" />`],
      ["Jobs running", running, html`<a href=${link("/queue")}>${queued.toLocaleString("en")} queued</a>`],
      ["Your cost today", money(today), "your use of rented machines"],
      ["Your cost this month", money(month), "since the 1st"],
    ]} />
  `;
}

const Nothing = () => html`
  <${Empty} title="No running experiments">
    <p>Create an experiment here or from a terminal, or fork one that has ended.</p>
  <//>
`;

/** @param {any} e */
const name = (e) => html`<a href=${link(`/experiments/${e.id}`)}>${e.name}</a> <span class="faint number">${e.id}</span>`;

/** @param {{ rows: any[] }} props */
const Running = ({ rows }) => html`
  <${Table} label="Your running experiments" total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} columns=${[
    { name: "Name", main: true, cell: name },
    { name: "State", cell: (/** @type {any} */ e) => html`<${State} state=${e.state} />` },
    { name: "Status", wrap: true, cell: (/** @type {any} */ e) => html`<span class="soft">${e.why}</span>` },
    { name: "Progress", cell: (/** @type {any} */ e) => html`<${Progress} value=${e.progress ?? 0} />` },
    { name: "Best", right: true, cell: (/** @type {any} */ e) => html`<span title=${e.searcherMetric}>${metric(e.bestTrialSearcherMetric)}</span>` },
    { name: "Duration", right: true, cell: (/** @type {any} */ e) => html`<${Span} from=${e.startTime} />` },
  ]} />
`;

/** @param {{ rows: any[] }} props */
const Open = ({ rows }) => html`
  <${Table} label="Your tasks" total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} columns=${[
    { name: "Task", main: true, cell: (/** @type {any} */ t) => html`<a href=${link(`/tasks/${t.kind}/${t.id}`)}>${t.description || t.id.slice(0, 8)}</a>` },
    { name: "Kind", cell: (/** @type {any} */ t) => KINDS[t.kind] },
    { name: "State", cell: (/** @type {any} */ t) => html`<${State} state=${stateOf(t)} />` },
    { name: "Duration", right: true, cell: (/** @type {any} */ t) => html`<${Span} from=${t.startTime} />` },
    { name: "", right: true, cell: (/** @type {any} */ t) => served(t) && html`<${Button} href=${served(t)} target="_blank" rel="noreferrer">Open<//>` },
  ]} />
`;

/** @param {{ rows: any[] }} props */
const Failed = ({ rows }) => html`
  <${Table} label="Failed" total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} columns=${[
    { name: "Name", main: true, cell: name },
    { name: "Reason", wrap: true, cell: (/** @type {any} */ e) => html`<span class="soft">${e.why}</span>` },
    { name: "Ended", right: true, cell: (/** @type {any} */ e) => html`<${Ago} at=${e.endTime} />` },
  ]} />
`;

/** @param {{ rows: any[] }} props */
const Completed = ({ rows }) => html`
  <${Table} label="Recently completed" total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} columns=${[
    { name: "Name", main: true, cell: name },
    { name: "Best", right: true, cell: (/** @type {any} */ e) => html`<span title=${e.searcherMetric}>${metric(e.bestTrialSearcherMetric)}</span>` },
    { name: "Trials", right: true, cell: (/** @type {any} */ e) => e.numTrials },
    { name: "Ended", right: true, cell: (/** @type {any} */ e) => html`<${Ago} at=${e.endTime} />` },
  ]} />
`;
