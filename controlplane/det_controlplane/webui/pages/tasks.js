// Notebooks, shells, commands, TensorBoards and generic tasks: what runs, and where it is.
import { get, post } from "../lib/api.js";
import { ago, moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { ask, go, link, place } from "../lib/router.js";
import { branch, end, inTrees, isOver, KINDS, listed, served, stateOf } from "../lib/tasks.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Field, Head, Loaded, Panel, State } from "../parts/basic.js";
import { Ask, attempt } from "../parts/overlay.js";
import { Table } from "../parts/table.js";

const LIVE_MS = 4_000;
const MOST = 200;

/** @param {AbortSignal} signal */
async function every(signal) {
  const told = await Promise.all(Object.keys(KINDS).map((kind) => listed(kind, MOST, signal)));
  return told.flat().sort((a, b) => String(b.startTime).localeCompare(String(a.startTime)));
}

export function Page() {
  const found = useLive(every, [], LIVE_MS);
  const [starting, setStarting] = useState(false);
  const ended = place.value.query.has("ended");
  return html`
    <${Head} title="Tasks" text="Notebooks, shells, commands, TensorBoards and generic tasks">
      <${Button} kind=${ended ? "on" : ""} aria-pressed=${String(ended)} onClick=${() => ask({ ended: ended ? "" : "1" })}>Ended ones too<//>
      <${Button} kind="primary" icon="plus" onClick=${() => setStarting(true)}>New notebook<//>
    <//>
    <${Panel} flush>
      <${Loaded} of=${found}>
        ${(/** @type {any[]} */ all) => {
          const rows = inTrees(all.filter((t) => ended || !isOver(t)));
          return rows.length ? html`<${Rows} rows=${rows} reload=${found.reload} />` : html`<${NoTasks} />`;
        }}
      <//>
    <//>
    ${starting && html`<${NewNotebook} onClose=${() => setStarting(false)} />`}
  `;
}

const NoTasks = () => html`
  <${Empty} title="Nothing runs">
    <p>Start a notebook here, a TensorBoard from the page of an experiment, a shell or a command from a terminal.</p>
    <pre>det shell start${"\n"}det command run nvidia-smi</pre>
  <//>
`;

/** @param {{ rows: any[], reload: () => Promise<void> }} props */
function Rows({ rows, reload }) {
  const kill = (/** @type {any} */ t) => attempt(() => end(t), `Ended ${t.description || t.id}`).then(reload);
  const columns = [
    { name: "Task", main: true, cell: (/** @type {any} */ t) => html`${branch(t)}<a href=${link(`/tasks/${t.kind}/${t.id}`)}>${t.description || t.id.slice(0, 8)}</a>` },
    { name: "Kind", cell: (/** @type {any} */ t) => KINDS[t.kind] },
    { name: "State", cell: (/** @type {any} */ t) => html`<${State} state=${stateOf(t)} />` },
    { name: "User", cell: (/** @type {any} */ t) => t.displayName || t.username },
    { name: "Pool", cell: (/** @type {any} */ t) => t.resourcePool },
    { name: "Started", right: true, cell: (/** @type {any} */ t) => html`<span title=${moment(t.startTime)}>${ago(t.startTime)}</span>` },
    {
      name: "", right: true,
      cell: (/** @type {any} */ t) => html`
        ${served(t) && html`<${Button} href=${served(t)} target="_blank" rel="noreferrer">Open<//> `}
        ${!isOver(t) && html`<${Button} kind="danger" aria-label=${`End ${t.description || t.id}`} onClick=${() => kill(t)}>End<//>`}
      `,
    },
  ];
  return html`<${Table} label="Tasks" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} />`;
}

/** @param {{ onClose: () => void }} props */
function NewNotebook({ onClose }) {
  const pools = useLive(async (signal) => (await get("/api/v1/resource-pools", {}, { signal })).resourcePools, []);
  const [slots, setSlots] = useState("0");
  const [pool, setPool] = useState("");
  const act = async () => {
    const made = await post("/api/v1/notebooks", { config: { resources: { slots: Number(slots), ...(pool ? { resource_pool: pool } : {}) } } });
    go(`/tasks/notebook/${made.notebook.id}`);
  };
  return html`
    <${Ask} title="New notebook" act="Start" onAct=${act} onClose=${onClose}>
      <p class="soft">JupyterLab in a container of the cluster. Files that are to stay belong in a mounted directory.</p>
      <${Field} label="Slots" hint="0: no accelerator"><input class="input" type="number" min="0" value=${slots} onInput=${(/** @type {any} */ e) => setSlots(e.target.value)} /><//>
      <${Field} label="Resource pool">
        <select class="input" value=${pool} onChange=${(/** @type {any} */ e) => setPool(e.target.value)}>
          <option value="">The usual one</option>
          ${(pools.data ?? []).map((/** @type {any} */ p) => html`<option value=${p.name}>${p.name}</option>`)}
        </select>
      <//>
    <//>
  `;
}
