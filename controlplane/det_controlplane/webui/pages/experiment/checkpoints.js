// The checkpoints that an experiment has, and those that were deleted.
import { get, send } from "../../lib/api.js";
import { ago, counted, metric, moment, size } from "../../lib/format.js";
import { usePaged } from "../../lib/paged.js";
import { keeps, may, maySomewhere } from "../../lib/rights.js";
import { link } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { Button, Empty, Pairs, Panel, State } from "../../parts/basic.js";
import { Listing } from "../../parts/listing.js";
import { Ask, Dialog } from "../../parts/overlay.js";
import { Register } from "./register.js";

const SHOWN = ["STATE_ACTIVE", "STATE_COMPLETED", "STATE_PARTIALLY_DELETED"];

/** @param {Record<string, string>} resources */
const total = (resources) => Object.values(resources ?? {}).reduce((sum, bytes) => sum + Number(bytes), 0);

/** @param {{ experiment?: any, trial?: any }} props of one or the other */
export function Checkpoints({ experiment, trial }) {
  const path = trial ? `/api/v1/trials/${trial.id}/checkpoints` : `/api/v1/experiments/${experiment.id}/checkpoints`;
  const [all, setAll] = useState(false);
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get(path, { offset, limit, sortByAttr: "SORT_BY_END_TIME", orderBy: "ORDER_BY_DESC", states: all ? [] : SHOWN }, { signal });
      return { rows: told.checkpoints, total: told.pagination.total };
    },
    [path, all],
    { every: 0, mark: (trial ?? experiment).revision },
  );
  const actions = html`<label class="row small soft"><input class="check" type="checkbox" checked=${all} onChange=${() => setAll(!all)} />Deleted ones too</label>`;
  return html`
    <${Panel} title="Checkpoints" actions=${actions} flush>
      <${Rows} experiment=${experiment} found=${found} />
    <//>
  `;
}

/** @param {{ experiment: any, found: import("../../lib/paged.js").Paged }} props */
function Rows({ experiment, found }) {
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const [registered, setRegistered] = useState(/** @type {any} */ (null));
  const [doomed, setDoomed] = useState(/** @type {any} */ (null));
  const columns = [
    { name: "Checkpoint", cell: (/** @type {any} */ c) => html`<button type="button" class="link mono" onClick=${() => setShown(c)}>${c.uuid.slice(0, 8)}</button>` },
    { name: "Trial", right: true, cell: (/** @type {any} */ c) => c.training?.trialId && html`<a href=${link(`/trials/${c.training.trialId}`)}>${c.training.trialId}</a>` },
    { name: "Batches", right: true, cell: (/** @type {any} */ c) => metric(c.metadata?.steps_completed) },
    { name: "Metric", right: true, cell: (/** @type {any} */ c) => metric(c.training?.searcherMetric) },
    { name: "State", cell: (/** @type {any} */ c) => html`<${State} state=${c.state} />${c.filesMissing && html` <span class="soft">files missing</span>`}` },
    { name: "Size", right: true, cell: (/** @type {any} */ c) => size(total(c.resources)) },
    { name: "Saved", right: true, cell: (/** @type {any} */ c) => html`<span title=${moment(c.reportTime)}>${ago(c.reportTime)}</span>` },
  ];
  return html`
    <${Listing} of=${found} label="Checkpoints" columns=${columns} id=${(/** @type {any} */ c) => c.uuid}
      empty=${html`<${Empty} title="No checkpoints"><p>Trials save them as their configuration says, and whenever they are paused.</p><//>`} />
    ${shown && html`<${Details} checkpoint=${shown} deletes=${!!experiment && keeps(experiment) && may("UPDATE_EXPERIMENT", experiment.workspaceId)} onClose=${() => setShown(null)} onDelete=${() => (setDoomed(shown), setShown(null))} onRegister=${() => (setRegistered(shown), setShown(null))} />`}
    ${registered && html`<${Register} checkpoint=${registered} onClose=${() => setRegistered(null)} />`}
    ${doomed &&
    html`
      <${Ask} title="Delete this checkpoint?" act="Delete" danger onClose=${() => setDoomed(null)}
        onAct=${async () => {
          await send("DELETE", "/api/v1/checkpoints", { checkpointUuids: [doomed.uuid] });
          await found.reload();
        }}>
        <p class="soft">${size(total(doomed.resources))} in ${counted(Object.keys(doomed.resources).length, "file")} go for good.</p>
      <//>
    `}
  `;
}

/** @param {{ checkpoint: any, deletes: boolean, onClose: () => void, onDelete: () => void, onRegister: () => void }} props */
const Details = ({ checkpoint, deletes, onClose, onDelete, onRegister }) => html`
  <${Dialog} title="Checkpoint" wide onClose=${onClose}>
    <${Pairs} of=${[
      ["UUID", html`<code>${checkpoint.uuid}</code>`],
      ["Saved", moment(checkpoint.reportTime)],
      ["Metadata", html`<code>${JSON.stringify(checkpoint.metadata)}</code>`],
      ["In a terminal", html`<code>det checkpoint download ${checkpoint.uuid}</code>`],
    ]} />
    <ul class="files">${Object.entries(checkpoint.resources ?? {}).map(([path, bytes]) => html`<li class="row row-wide"><code>${path}</code><span class="number soft">${path.endsWith("/") ? "" : size(/** @type {string} */ (bytes))}</span></li>`)}</ul>
    <div class="dialog-foot">
      ${checkpoint.state === "STATE_COMPLETED" && html`
        ${deletes && html`<${Button} kind="danger" onClick=${onDelete}>Delete<//>`}
        ${!checkpoint.filesMissing && html`
          ${maySomewhere("EDIT_MODEL_REGISTRY") && html`<${Button} onClick=${onRegister}>Register as a model version<//>`}
          <${Button} kind="primary" href=${`/checkpoints/${encodeURIComponent(checkpoint.uuid)}`} download>Download<//>
        `}
      `}
      <${Button} onClick=${onClose}>Close<//>
    </div>
  <//>
`;
