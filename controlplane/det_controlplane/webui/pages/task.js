// One notebook, shell, command or TensorBoard with its log.
import { get, post } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { link } from "../lib/router.js";
import { isOver, KINDS, served, stateOf } from "../lib/tasks.js";
import { html } from "../lib/view.js";
import { Button, Empty, Head, Loaded, State } from "../parts/basic.js";
import { Logs } from "../parts/logs.js";
import { attempt } from "../parts/overlay.js";

/** @param {{ kind: string, id: string }} props */
export function Page({ kind, id }) {
  if (!(kind in KINDS)) return html`<${Empty} title="There is no such kind of task"><${Button} href=${link("/tasks")}>All tasks<//><//>`;
  return html`<${Task} kind=${kind} id=${id} />`;
}

/** @param {{ kind: string, id: string }} props */
function Task({ kind, id }) {
  const path = `/api/v1/${kind}s/${encodeURIComponent(id)}`;
  const found = useLive(
    async (signal) => {
      const [told, why] = await Promise.all([get(path, {}, { signal }), get(`/api/v1/why/task/${encodeURIComponent(id)}`, {}, { signal }).catch(() => ({ reasons: [] }))]);
      return { task: told[kind], reason: why.reasons[0]?.sentence ?? "" };
    },
    [kind, id],
    (data) => (isOver(data.task) ? 0 : 2_500),
  );
  const end = () => attempt(() => post(`${path}/kill`), "It ends").then(found.reload);
  return html`
    <${Loaded} of=${found}>
      ${(/** @type {{ task: any, reason: string }} */ { task, reason }) => html`
        <${Head} title=${task.description || id} text=${`${KINDS[kind]} of ${task.displayName || task.username} in pool ${task.resourcePool}, since ${moment(task.startTime)}`} beside=${html`<${State} state=${stateOf(task)} />`}>
          ${served(task) && html`<${Button} kind="primary" href=${served(task)} target="_blank" rel="noreferrer">Open<//>`}
          ${!isOver(task) && html`<${Button} kind="danger" icon="close" onClick=${end}>End<//>`}
        <//>
        <div class="stack">
          ${(reason || task.exitStatus) && html`<div class=${`notice ${isOver(task) ? "quiet" : ""}`}><p>${task.exitStatus || `It ${reason}.`}</p></div>`}
          <${Logs} path=${`/api/v1/tasks/${encodeURIComponent(id)}/logs`} live=${!isOver(task)} />
        </div>
      `}
    <//>
  `;
}
