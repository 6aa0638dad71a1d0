// One notebook, shell, command, TensorBoard or generic task with its log.
import { get, post } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { link } from "../lib/router.js";
import { branch, end as endTask, isOver, KINDS, one, served, stateOf } from "../lib/tasks.js";
import { html } from "../lib/view.js";
import { Button, Empty, Head, Loaded, Panel, State } from "../parts/basic.js";
import { Logs } from "../parts/logs.js";
import { attempt } from "../parts/overlay.js";
import { Table } from "../parts/table.js";

/** @param {{ kind: string, id: string }} props */
export function Page({ kind, id }) {
  if (!(kind in KINDS)) return html`<${Empty} title="There is no such kind of task"><${Button} href=${link("/tasks")}>All tasks<//><//>`;
  return html`<${Task} kind=${kind} id=${id} />`;
}

/** @param {{ kind: string, id: string }} props */
function Task({ kind, id }) {
  const found = useLive(
    async (signal) => {
      const [task, why] = await Promise.all([one(kind, id, signal), get(`/api/v1/why/task/${encodeURIComponent(id)}`, {}, { signal }).catch(() => ({ reasons: [] }))]);
      return { task, reason: why.reasons[0]?.sentence ?? "" };
    },
    [kind, id],
    (data) => (isOver(data.task) ? 0 : 2_500),
  );
  const end = (/** @type {any} */ task) => attempt(() => endTask(task), "It ends").then(found.reload);
  const steer = (/** @type {string} */ verb, /** @type {string} */ done) => attempt(() => post(`/api/v1/tasks/${id}/${verb}`, { taskId: id }), done).then(found.reload);
  return html`
    <${Loaded} of=${found}>
      ${(/** @type {{ task: any, reason: string }} */ { task, reason }) => html`
        <${Head} title=${task.description || id} text=${`${KINDS[kind]} of ${task.displayName || task.username} in pool ${task.resourcePool}, since ${moment(task.startTime)}`} beside=${html`<${State} state=${stateOf(task)} />`}>
          ${served(task) && html`<${Button} kind="primary" href=${served(task)} target="_blank" rel="noreferrer">Open<//>`}
          ${kind === "generic" && task.state === "STATE_PAUSED" && html`<${Button} onClick=${() => steer("unpause", "It goes on")}>Resume<//>`}
          ${kind === "generic" && !isOver(task) && task.state !== "STATE_PAUSED" && !task.noPause && html`<${Button} onClick=${() => steer("pause", "It pauses")}>Pause<//>`}
          ${!isOver(task) && html`<${Button} kind="danger" icon="close" onClick=${() => end(task)}>End<//>`}
        <//>
        <div class="stack">
          ${(reason || task.exitStatus) && html`<div class=${`notice ${isOver(task) ? "quiet" : ""}`}><p>${task.exitStatus || `It ${reason}.`}</p></div>`}
          ${task.tree.length > 1 && html`<${Tree} tree=${task.tree} own=${id} />`}
          <${Logs} path=${`/api/v1/tasks/${encodeURIComponent(id)}/logs`} live=${!isOver(task)} />
        </div>
      `}
    <//>
  `;
}

/** @param {{ tree: any[], own: string }} props */
function Tree({ tree, own }) {
  const columns = [
    {
      name: "Task", main: true,
      cell: (/** @type {any} */ t) => html`${branch(t)}${t.id === own ? html`<b>${t.description}</b>` : html`<a href=${link(`/tasks/generic/${t.id}`)}>${t.description}</a>`}`,
    },
    { name: "State", cell: (/** @type {any} */ t) => html`<${State} state=${stateOf(t)} />` },
    { name: "Started", right: true, cell: (/** @type {any} */ t) => moment(t.startTime) },
  ];
  return html`<${Panel} title="Tree" flush><${Table} label="Tasks of the tree" columns=${columns} total=${tree.length} row=${(/** @type {number} */ i) => tree[i]} /><//>`;
}
