// The runs of a trial in order: machines, duration, cost and end of each.
import { get } from "../lib/api.js";
import { moment, money } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { html } from "../lib/view.js";
import { Empty, Loaded, Panel, State } from "../parts/basic.js";
import { Table } from "../parts/table.js";
import { Span } from "../parts/time.js";

/** @param {string} id of a task @param {AbortSignal} signal */
async function runsOf(id, signal) {
  const name = encodeURIComponent(id);
  const [{ task }, { allocations }] = await Promise.all([
    get(`/api/v1/tasks/${name}`, {}, { signal }),
    get(`/api/v1/costs/tasks/${name}/allocations`, {}, { signal }).catch(() => ({ allocations: [] })),
  ]);
  const costs = new Map(allocations.map((/** @type {any} */ a) => [a.allocationId, a]));
  return task.allocations.map((/** @type {any} */ a) => ({ ...costs.get(a.allocationId), ...a }));
}

/** @param {{ of: any }} props an allocation */
function Machines({ of }) {
  const machines = of.machines ?? of.agentIds.map((/** @type {string} */ id) => ({ agentId: id }));
  if (!machines.length) return html`<span class="faint">none yet</span>`;
  return html`
    <ul>
      ${machines.map(
        (/** @type {any} */ m) => html`
          <li>${machines.length > 1 && html`<span class="faint number">rank ${m.rank} </span>`}${m.agentId}
            ${m.machineType && html` <span class="soft small">${m.machineType} ${m.capacity}, ${m.provider} ${m.zone}, ${money(m.priceUsdHour)} / h</span>`}</li>
        `,
      )}
    </ul>
  `;
}

/** @param {{ trial: any }} props */
export function Allocations({ trial }) {
  const found = useLive(async (signal) => (await Promise.all(trial.taskIds.map((/** @type {string} */ id) => runsOf(id, signal)))).flat(), [trial.id, trial.state], 0, trial.revision);
  const columns = [
    { name: "Run", right: true, cell: (/** @type {any} */ a) => a.allocationId.split(".").pop() },
    { name: "State", cell: (/** @type {any} */ a) => html`<${State} state=${a.state} />` },
    { name: "Slots", right: true, cell: (/** @type {any} */ a) => a.slots },
    { name: "Machines", wrap: true, cell: (/** @type {any} */ a) => html`<${Machines} of=${a} />` },
    { name: "Started", right: true, cell: (/** @type {any} */ a) => moment(a.startTime) },
    { name: "Duration", right: true, cell: (/** @type {any} */ a) => html`<${Span} from=${a.startTime} to=${a.endTime} />` },
    { name: "Cost", right: true, cell: (/** @type {any} */ a) => money(a.costUsd) },
    { name: "Exit reason", wrap: true, cell: (/** @type {any} */ a) => html`<span class="soft">${a.exitReason ?? ""}</span>` },
  ];
  return html`
    <${Panel} flush>
      <${Loaded} of=${found}>
        ${(/** @type {any[]} */ rows) =>
          rows.length
            ? html`<${Table} label="Allocations" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} id=${(/** @type {any} */ a) => a.allocationId} />`
            : html`<${Empty} title="No runs yet" />`}
      <//>
    <//>
  `;
}
