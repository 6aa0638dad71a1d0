// One notebook, shell, command, TensorBoard or generic task with its log and its resources.
import { get, post } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { ask, link, place } from "../lib/router.js";
import { branch, end as endTask, hasTerminal, isOver, KINDS, one, served, stateOf, steers, terminalOf } from "../lib/tasks.js";
import { html, useEffect } from "../lib/view.js";
import { inPage } from "../lib/why.js";
import { Button, Empty, FailureDetails, Head, Loaded, Panel, State, Tabs } from "../parts/basic.js";
import { Logs } from "../parts/logs.js";
import { attempt } from "../parts/overlay.js";
import { Resources } from "../parts/resources.js";
import { Table } from "../parts/table.js";

const TABS = [["logs", "Logs"], ["resources", "Resources"]];

/** @param {{ kind: string, id: string, tab?: string }} props */
export function Page({ kind, id, tab = "logs" }) {
  if (!(kind in KINDS)) return html`<${Empty} title="Unknown task type"><${Button} href=${link("/tasks")}>All tasks<//><//>`;
  return html`<${Task} kind=${kind} id=${id} tab=${tab} />`;
}

/** Tell whether what a task serves answers. @param {string} id @param {AbortSignal} signal */
async function answers(id, signal) {
  const { task } = await get(`/api/v1/tasks/${encodeURIComponent(id)}`, {}, { signal });
  return task.allocations.some((/** @type {any} */ a) => a.isReady);
}

/** Show what a task serves in place of its page, as soon as it does. @param {any} data */
function useOpening(data) {
  const address = data?.ready && served(data.task);
  useEffect(() => {
    if (address) location.replace(address);
  }, [address]);
}

/** @param {{ kind: string, id: string, tab: string }} props */
function Task({ kind, id, tab }) {
  const opening = place.value.query.has("open");
  const found = useLive(
    async (signal) => {
      const [task, why] = await Promise.all([one(kind, id, signal), get(`/api/v1/why/task/${encodeURIComponent(id)}`, {}, { signal }).catch(() => ({ reasons: [] }))]);
      return { task, reason: inPage(why.reasons[0]?.sentence ?? ""), failure: why.reasons.find((/** @type {import("../lib/why.js").Reason} */ r) => r.cause), ready: opening && !isOver(task) && (await answers(id, signal)) };
    },
    [kind, id, opening],
    (data) => (isOver(data.task) ? 0 : 2_500),
  );
  useOpening(found.data);
  const end = (/** @type {any} */ task) => attempt(() => endTask(task), "Ending task").then(found.reload);
  const steer = (/** @type {string} */ verb, /** @type {string} */ done) => attempt(() => post(`/api/v1/tasks/${id}/${verb}`, { taskId: id }), done).then(found.reload);
  return html`
    <${Loaded} of=${found} title=${KINDS[kind]} list=${["/tasks?ended=1", "All tasks"]}>
      ${(/** @type {{ task: any, reason: string, failure: import("../lib/why.js").Reason | undefined }} */ { task, reason, failure }) => html`
        <${Head} title=${task.description || id} text=${`${KINDS[kind]} of ${task.displayName || task.username} in pool ${task.resourcePool}, since ${moment(task.startTime)}`} beside=${html`<${State} state=${stateOf(task)} />`}>
          ${served(task) && html`<${Button} kind="primary" href=${served(task)} target="_blank" rel="noreferrer">Open<//>`}
          ${hasTerminal(task) && html`<${Button} kind="primary" href=${terminalOf(task)}>Open terminal<//>`}
          ${kind === "generic" && steers(task) && task.state === "STATE_PAUSED" && html`<${Button} onClick=${() => steer("unpause", "Task resumed")}>Resume<//>`}
          ${kind === "generic" && steers(task) && !isOver(task) && task.state !== "STATE_PAUSED" && !task.noPause && html`<${Button} onClick=${() => steer("pause", "Pausing task")}>Pause<//>`}
          ${!isOver(task) && steers(task) && html`<${Button} kind="danger" icon="close" onClick=${() => end(task)}>End<//>`}
        <//>
        <div class="stack">
          ${opening && !isOver(task) && html`<div key="notice" class="notice quiet" role="status"><p>The task opens here when it is ready.</p><${Button} onClick=${() => ask({ open: "" })}>Stay on this page<//></div>`}
          ${(reason || task.exitStatus) && html`<div key="reason" class=${`notice ${isOver(task) ? "quiet" : ""}`} role="status"><p>${failure?.cause || task.exitStatus || `It ${reason}.`}</p><${FailureDetails} of=${failure} /></div>`}
          ${task.tree.length > 1 && html`<${Tree} tree=${task.tree} own=${id} />`}
          <div>
            <${Tabs} label="Parts of the task" tabs=${TABS.map(([key, name]) => ({ name, href: link(`/tasks/${kind}/${id}/${key}`), chosen: key === tab }))} />
            ${tab === "resources" ? html`<${Resources} tasks=${[id]} live=${!isOver(task)} />` : html`<${Logs} path=${`/api/v1/tasks/${encodeURIComponent(id)}/logs`} live=${!isOver(task)} name=${`${kind}-${id}`} />`}
          </div>
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
  return html`<${Panel} title="Task tree" flush><${Table} label="Task tree" columns=${columns} total=${tree.length} row=${(/** @type {number} */ i) => tree[i]} /><//>`;
}
