// Notebooks, shells, commands, TensorBoards and generic tasks, with their states and machines.
import { useLive } from "../lib/live.js";
import { maySomewhere } from "../lib/rights.js";
import { ask, link, place } from "../lib/router.js";
import { branch, end, hasTerminal, inTrees, isOver, KINDS, listed, served, stateOf, steers, terminalOf } from "../lib/tasks.js";
import { html, useEffect, useState } from "../lib/view.js";
import { Button, Empty, Head, Loaded, Panel, State, Toggle } from "../parts/basic.js";
import { attempt, Menu } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";
import { NewTask } from "./new_task.js";

const LIVE_MS = 4_000;
const MOST = 200;
/** @type {[string, string][]} */
const OTHERS = [["command", "New command"], ["tensorboard", "New TensorBoard"], ["generic", "New generic task"]];

/** The newest tasks of each kind, and whether there are more. @param {number} most @param {AbortSignal} signal */
async function newest(most, signal) {
  const told = await Promise.all(Object.keys(KINDS).map((kind) => listed(kind, most + 1, signal)));
  const tasks = told.flatMap((of) => of.slice(0, most)).sort((a, b) => String(b.startTime).localeCompare(String(a.startTime)));
  return { tasks, more: told.some((of) => of.length > most) };
}

export function Page() {
  const [most, setMost] = useState(MOST);
  const found = useLive((signal) => newest(most, signal), [most], LIVE_MS);
  const { query } = place.value;
  const ended = query.has("ended");
  const starts = maySomewhere("CREATE_NSC");
  // Other pages come here to have a task started: the address asks once.
  const [starting, setStarting] = useState(() => ({ kind: query.get("new") ?? "", experiments: query.get("experiments") ?? "", trials: query.get("trials") ?? "" }));
  useEffect(() => void (query.has("new") && ask({ new: "", experiments: "", trials: "" })), []);
  const start = (/** @type {string} */ kind) => setStarting({ kind, experiments: "", trials: "" });
  return html`
    <${Head} title="Tasks" text="Notebooks, shells, commands, TensorBoards and generic tasks">
      <${Toggle} on=${ended} onClick=${() => ask({ ended: ended ? "" : "1" })}>Show ended<//>
      ${starts && html`<${Menu} label="Other new tasks" text="Others" items=${OTHERS.map(([kind, name]) => ({ name, act: () => start(kind) }))} />`}
      ${starts && html`<${Button} icon="plus" onClick=${() => start("shell")}>New shell<//>`}
      ${starts && html`<${Button} kind="primary" icon="plus" onClick=${() => start("notebook")}>New notebook<//>`}
    <//>
    <${Panel} flush>
      <${Loaded} of=${found}>
        ${(/** @type {{ tasks: any[], more: boolean }} */ { tasks, more }) => {
          const rows = inTrees(tasks.filter((t) => ended || !isOver(t)));
          return html`
            ${rows.length ? html`<${Rows} rows=${rows} reload=${found.reload} />` : html`<${NoTasks} ended=${ended} />`}
            ${more && html`<p class="panel-body row soft">Showing the newest ${most} tasks of each type. <${Button} onClick=${() => setMost(5 * most)}>Show more<//></p>`}
          `;
        }}
      <//>
    <//>
    ${starts && starting.kind in KINDS && html`<${NewTask} ...${starting} onClose=${() => start("")} />`}
  `;
}

/** @param {{ ended: boolean }} props */
const NoTasks = ({ ended }) => html`
  <${Empty} title=${ended ? "No tasks yet" : "No running tasks"}>
    <p>Start a notebook, shell, command, TensorBoard or generic task with the buttons above. ${!ended && "To see recent ended tasks, select “Show ended”."}</p>
  <//>
`;

/** @param {{ rows: any[], reload: () => Promise<void> }} props */
function Rows({ rows, reload }) {
  const kill = (/** @type {any} */ t) => attempt(() => end(t), `Ended ${t.description || t.id}`).then(reload);
  const columns = [
    { name: "Task", main: true, cell: (/** @type {any} */ t) => html`${branch(t)}<a href=${link(`/tasks/${t.kind}/${t.id}`)}>${t.description || t.id.slice(0, 8)}</a>` },
    { name: "Type", cell: (/** @type {any} */ t) => KINDS[t.kind] },
    { name: "State", cell: (/** @type {any} */ t) => html`<${State} state=${stateOf(t)} />` },
    { name: "User", cell: (/** @type {any} */ t) => t.displayName || t.username },
    { name: "Pool", cell: (/** @type {any} */ t) => t.resourcePool },
    { name: "Started", right: true, cell: (/** @type {any} */ t) => html`<${Ago} at=${t.startTime} />` },
    {
      name: "", right: true,
      cell: (/** @type {any} */ t) => html`
        ${served(t) && html`<${Button} href=${served(t)} target="_blank" rel="noreferrer">Open<//> `}
        ${hasTerminal(t) && html`<${Button} href=${terminalOf(t)} aria-label=${`Open terminal of ${t.description || t.id}`}>Terminal<//> `}
        ${!isOver(t) && steers(t) && html`<${Button} kind="danger" aria-label=${`End ${t.description || t.id}`} onClick=${() => kill(t)}>End<//>`}
      `,
    },
  ];
  return html`<${Table} label="Tasks" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} />`;
}
