// The running work of a pool: the machine and slots of each rank.
import { counted } from "../lib/format.js";
import { link } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { State } from "../parts/basic.js";
import { Table } from "../parts/table.js";

// Further machines of a larger gang are shown on request.
const SHOWN = 4;
const KINDS = { TASK_TYPE_NOTEBOOK: "notebook", TASK_TYPE_SHELL: "shell", TASK_TYPE_COMMAND: "command", TASK_TYPE_TENSORBOARD: "tensorboard", TASK_TYPE_GENERIC: "generic" };

/** @param {any} a an allocation */
function addressOf(a) {
  const trial = a.taskType === "TASK_TYPE_TRIAL" && /^Trial (\d+) /.exec(a.name);
  if (trial) return link(`/trials/${trial[1]}/allocations`);
  const kind = KINDS[/** @type {keyof KINDS} */ (a.taskType)];
  return kind && link(`/tasks/${kind}/${encodeURIComponent(a.taskId)}`);
}

/** Name slots as ranges. @param {number[]} ids */
function slotsOf(ids) {
  const sorted = [...ids].sort((a, b) => a - b);
  const parts = [];
  for (let i = 0; i < sorted.length; ) {
    let j = i;
    while (sorted[j + 1] === sorted[j] + 1) j++;
    parts.push(i === j ? `${sorted[i]}` : `${sorted[i]}–${sorted[j]}`);
    i = j + 1;
  }
  return parts.join(", ");
}

/** @param {{ of: any }} props an allocation; its resources come by rank */
function Ranks({ of }) {
  const [all, setAll] = useState(false);
  const ranks = of.resources.flatMap((/** @type {any} */ r, /** @type {number} */ rank) => Object.entries(r.agentDevices).map(([agent, d]) => ({ rank, agent, slots: /** @type {any} */ (d).devices.map((/** @type {any} */ x) => x.id) })));
  if (!ranks.length) return html`<span class="faint">waiting for a machine</span>`;
  const shown = all ? ranks : ranks.slice(0, SHOWN);
  return html`
    <ul>
      ${shown.map((/** @type {any} */ r) => html`<li>${ranks.length > 1 && html`<span class="faint number">rank ${r.rank} </span>`}${r.agent}${r.slots.length > 0 && html` <span class="soft small">${r.slots.length === 1 ? "slot" : "slots"} ${slotsOf(r.slots)}</span>`}</li>`)}
    </ul>
    ${shown.length < ranks.length && html`<button type="button" class="link small" onClick=${() => setAll(true)}>and ${counted(ranks.length - shown.length, "rank")} more</button>`}
  `;
}

/** @param {{ of: any[] }} props allocations */
export function Work({ of }) {
  const columns = [
    { name: "Work", main: true, cell: (/** @type {any} */ a) => (addressOf(a) ? html`<a href=${addressOf(a)}>${a.name}</a>` : a.name) },
    { name: "State", cell: (/** @type {any} */ a) => html`<${State} state=${a.state} />` },
    { name: "Slots", right: true, cell: (/** @type {any} */ a) => a.slotsNeeded },
    { name: "User", cell: (/** @type {any} */ a) => a.username },
    { name: "Location", wrap: true, cell: (/** @type {any} */ a) => html`<${Ranks} of=${a} />` },
  ];
  return html`
    <h3 class="panel-head">Running work</h3>
    <${Table} label="Running work" columns=${columns} total=${of.length} row=${(/** @type {number} */ i) => of[i]} id=${(/** @type {any} */ a) => a.allocationId} />
  `;
}
