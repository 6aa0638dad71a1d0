// Budgets: how much may be spent on an experiment, a person, a workspace or a pool, and how much is.
import { get, send } from "../lib/api.js";
import { money } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { isAdmin } from "../lib/rights.js";
import { link } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { workspaces } from "../lib/workspaces.js";
import { Button, Empty, Head, Loaded, Panel } from "../parts/basic.js";
import { Choice, Line } from "../parts/fields.js";
import { Ask, AskDelete, Menu } from "../parts/overlay.js";
import { Person } from "../parts/person.js";
import { Table } from "../parts/table.js";

const LIVE_MS = 15_000;
/** @type {[string, string][]} */
const PERIODS = [["month", "monthly"], ["total", "total"]];
/** @type {Record<string, [string, string]>} colour and words */
const STATES = { WITHIN: ["green", "Within budget"], WARNED: ["amber", "Nearly spent"], DRAINING: ["red", "Spent"], STOPPED: ["red", "Exceeded"] };

export function Page() {
  const found = useLive(async (signal) => (await get("/api/v1/budgets", { limit: -1 }, { signal })).budgets, [], LIVE_MS);
  const [open, setOpen] = useState(/** @type {any} */ (null));
  const close = () => setOpen(null);
  return html`
    <${Head} title="Budgets" text="Warns at 80 %, pauses experiments after a checkpoint at 100 %, kills remaining work at 110 %">
      <${Button} kind="primary" icon="plus" onClick=${() => setOpen({ what: "set" })}>New budget<//>
    <//>
    <${Panel} flush>
      <${Loaded} of=${found}>
        ${(/** @type {any[]} */ rows) => (rows.length ? html`<${Rows} rows=${rows} open=${setOpen} />` : html`<${None} />`)}
      <//>
    <//>
    ${open?.what === "set" && html`<${SetBudget} of=${open.of} onClose=${close} onDone=${found.reload} />`}
    ${open?.what === "delete" && html`<${AskDelete} what=${`the budget of ${nameOf(open.of)}`} path=${`/api/v1/budgets/${open.of.id}`} onDone=${found.reload} onClose=${close}>Spending is no longer limited. A pool that it stopped launches machines again. Experiments that it paused stay paused.<//>`}
  `;
}

const None = () => html`
  <${Empty} title="No budgets yet">
    <p>A budget limits the cost of an experiment, a person, a workspace or a pool. Only rented machines have a cost.</p>
  <//>
`;

/** @param {any} b */
const nameOf = (b) => (b.scope === "user" ? b.scopeName : `${b.scope} ${b.scopeName}`);

/** @param {any} b */
const shown = (b) => (b.scope === "experiment" ? html`<a href=${link(`/experiments/${b.scopeId}`)}>${nameOf(b)}</a>` : nameOf(b));

/** @param {{ rows: any[], open: (what: any) => void }} props */
function Rows({ rows, open }) {
  const columns = [
    { name: "Scope", main: true, cell: shown },
    { name: "Spent", wrap: true, cell: (/** @type {any} */ b) => html`<${Spent} of=${b} />` },
    { name: "Limit", right: true, cell: (/** @type {any} */ b) => money(b.limitUsd) },
    { name: "Period", cell: (/** @type {any} */ b) => PERIODS.find(([key]) => key === b.period)?.[1] ?? b.period },
    { name: "State", cell: (/** @type {any} */ b) => html`<span class=${`state ${STATES[b.state]?.[0] ?? ""}`}>${STATES[b.state]?.[1] ?? b.state}</span>` },
    {
      name: "", right: true,
      cell: (/** @type {any} */ b) =>
        (isAdmin() || b.scope === "experiment") &&
        html`<${Menu} label=${`Actions on the budget of ${nameOf(b)}`} kind="plain" items=${[
          { name: "Edit", act: () => open({ what: "set", of: b }) },
          { name: "Delete", danger: true, act: () => open({ what: "delete", of: b }) },
        ]} />`,
    },
  ];
  return html`<${Table} label="Budgets" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} />`;
}

/** @param {{ of: any }} props */
function Spent({ of }) {
  const part = of.spentUsd / of.limitUsd;
  const words = `${money(of.spentUsd)} of ${money(of.limitUsd)}`;
  return html`
    <span class="actions">
      <progress class=${`progress wide ${STATES[of.state]?.[0] ?? ""}`} max="1" value=${Math.min(1, part)} aria-label=${words} />
      <span class="number">${money(of.spentUsd)} <span class="faint">${Math.round(part * 100)} %</span></span>
    </span>
  `;
}

/** @param {{ of?: any, onClose: () => void, onDone: () => Promise<void> }} props a budget to change, or none */
function SetBudget({ of, onClose, onDone }) {
  const [scope, setScope] = useState(of?.scope ?? "experiment");
  const [name, setName] = useState(of ? (of.scope === "experiment" ? of.scopeId : of.scopeName) : "");
  const [limit, setLimit] = useState(of ? String(of.limitUsd) : "");
  const [period, setPeriod] = useState(of?.period ?? "total");
  const chosen = (/** @type {string} */ kind) => (setScope(kind), setName(""));
  const act = async () => {
    await send("PUT", "/api/v1/budgets", { scope, of: name.trim(), limitUsd: limit, period });
    await onDone();
  };
  /** @type {[string, string][]} */
  const scopes = [["experiment", "Experiment"], ["user", "Person"], ["workspace", "Workspace"], ["pool", "Resource pool"]];
  return html`
    <${Ask} title=${of ? `Budget of ${nameOf(of)}` : "New budget"} act="Save" off=${!name.trim() || !(Number(limit) > 0)} onAct=${act} onClose=${onClose}>
      ${!of && isAdmin() && html`<${Choice} label="Scope" value=${scope} set=${chosen} of=${scopes} />`}
      ${!of && html`<${Which} key=${scope} scope=${scope} name=${name} set=${setName} />`}
      <${Line} label="US dollars" value=${limit} set=${setLimit} type="number" min="0.01" step="0.01" inputmode="decimal" />
      <${Choice} label="Period" value=${period} set=${setPeriod} of=${PERIODS} />
    <//>
  `;
}

/** @param {{ scope: string, name: string, set: (name: string) => void }} props */
function Which({ scope, name, set }) {
  const offered = useLive(async (signal) => {
    if (scope === "workspace") return (await workspaces(signal)).map((w) => w.name);
    if (scope === "pool") return (await get("/api/v1/resource-pools", {}, { signal })).resourcePools.map((/** @type {any} */ p) => p.name);
    return [];
  }, [scope]);
  if (scope === "experiment") return html`<${Line} label="Experiment" hint="ID of the experiment" value=${name} set=${set} inputmode="numeric" />`;
  if (scope === "user") return html`<${Person} label="Person" value=${name} set=${set} />`;
  const of = /** @type {[string, string][]} */ ([["", "Select one"], ...(offered.data ?? []).map((/** @type {string} */ n) => [n, n])]);
  return html`<${Choice} label=${scope === "pool" ? "Resource pool" : "Workspace"} value=${name} set=${set} of=${of} />`;
}
