// One model of the registry with its versions.
import { get, post } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { usePaged } from "../lib/paged.js";
import { keeps, may } from "../lib/rights.js";
import { go, link } from "../lib/router.js";
import { download } from "../lib/save.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Head, Loaded, Panel } from "../parts/basic.js";
import { Line } from "../parts/fields.js";
import { Ask, AskDelete, attempt, Menu } from "../parts/overlay.js";
import { Listing } from "../parts/listing.js";
import { Markdown } from "../parts/markdown.js";
import { MoveTo } from "../parts/move_experiments.js";
import { Ago } from "../parts/time.js";
import { Edit, EditVersion } from "./model_dialogs.js";

const LIVE_MS = 15_000;

/** @param {{ id: string }} props */
export function Page({ id }) {
  const path = `/api/v1/models/${encodeURIComponent(id)}`;
  const found = useLive(async (signal) => (await get(path, {}, { signal })).model, [id], LIVE_MS);
  return html`<${Loaded} of=${found} title="Model" list=${["/models", "All models"]}>${(/** @type {any} */ model) => html`<${Shown} model=${model} path=${path} changed=${found.reload} />`}<//>`;
}

/** @param {{ model: any, path: string, changed: () => Promise<void> }} props */
function Shown({ model, path, changed }) {
  const versions = usePaged(
    async (offset, limit, signal) => {
      const told = await get(`${path}/versions`, { offset, limit, sortBy: "SORT_BY_VERSION", orderBy: "ORDER_BY_DESC" }, { signal });
      return { rows: told.modelVersions, total: told.pagination.total };
    },
    [path],
    { every: LIVE_MS },
  );
  const reload = async () => void (await Promise.all([changed(), versions.reload()]));
  const [open, setOpen] = useState("");
  const close = () => setOpen("");
  const edits = may("EDIT_MODEL_REGISTRY", model.workspaceId);
  const archive = (/** @type {string} */ what) => attempt(() => post(`${path}/${what}`), model.archived ? "Unarchived" : "Archived").then(reload);
  return html`
    <${Head} title=${model.name} text=${model.description} beside=${html`${model.labels.map((/** @type {string} */ l) => html`<span class="label">${l}</span>`)}${model.archived && html`<span class="label">archived</span>`}`}>
      ${edits && html`<${Button} kind="primary" icon="plus" onClick=${() => setOpen("register")}>Register a checkpoint<//>`}
      <${Menu} label="More actions" items=${[
        edits && { name: "Edit", act: () => setOpen("edit") },
        edits && keeps(model) && { name: "Move to another workspace", act: () => setOpen("move") },
        keeps(model) && edits && (model.archived ? { name: "Unarchive", act: () => void archive("unarchive") } : { name: "Archive", act: () => void archive("archive") }),
        may("DELETE_MODEL_REGISTRY", model.workspaceId) && keeps(model) && { name: "Delete", danger: true, act: () => setOpen("delete") },
      ]} />
    <//>
    <${Panel} title="Versions" flush>
      <${Versions} model=${model} versions=${versions} path=${path} reload=${reload} />
    <//>
    ${model.notes && html`<${Panel} title="Notes"><${Markdown} text=${model.notes} /><//>`}
    ${open === "edit" && html`<${Edit} model=${model} path=${path} onClose=${close} onDone=${reload} />`}
    ${open === "move" && html`<${MoveTo} name=${model.name} from=${model.workspaceId} right="CREATE_MODEL_REGISTRY" note="Its versions move with it. The new workspace determines who can see them." path=${`${path}/move`} body=${{ modelName: model.name }} onClose=${close} onDone=${reload} />`}
    ${open === "register" && html`<${Register} path=${path} onClose=${close} onDone=${reload} />`}
    ${open === "delete" && html`<${AskDelete} what=${model.name} path=${path} onDone=${() => go("/models")} onClose=${close}>The model and its versions are deleted. The checkpoints are kept.<//>`}
  `;
}

/** @param {{ model: any, versions: import("../lib/paged.js").Paged, path: string, reload: () => Promise<void> }} props */
function Versions({ model, versions, path, reload }) {
  const [changed, setChanged] = useState(/** @type {any} */ (null));
  const [doomed, setDoomed] = useState(/** @type {any} */ (null));
  const actions = (/** @type {any} */ v) => [
    v.checkpoint.state === "STATE_COMPLETED" && { name: "Download", act: () => download(`/checkpoints/${encodeURIComponent(v.checkpoint.uuid)}`) },
    may("EDIT_MODEL_REGISTRY", model.workspaceId) && { name: "Edit", act: () => setChanged(v) },
    may("DELETE_MODEL_VERSION", model.workspaceId) && keeps({ userId: v.userId, workspaceId: model.workspaceId }) && { name: "Delete", danger: true, act: () => setDoomed(v) },
  ];
  const columns = [
    { name: "Version", right: true, cell: (/** @type {any} */ v) => v.version },
    { name: "Name", main: true, cell: (/** @type {any} */ v) => v.name || html`<span class="faint">no name</span>` },
    { name: "Checkpoint", cell: (/** @type {any} */ v) => html`<code>${v.checkpoint.uuid}</code>` },
    { name: "Trained by", cell: (/** @type {any} */ v) => v.checkpoint.training?.trialId && html`<a href=${link(`/trials/${v.checkpoint.training.trialId}`)}>trial ${v.checkpoint.training.trialId}</a>` },
    { name: "Comment", wrap: true, cell: (/** @type {any} */ v) => html`<span class="soft">${v.comment}</span>` },
    { name: "User", cell: (/** @type {any} */ v) => v.username },
    { name: "Registered", right: true, cell: (/** @type {any} */ v) => html`<${Ago} at=${v.creationTime} />` },
    { name: "", right: true, cell: (/** @type {any} */ v) => html`<${Menu} label=${`Actions on version ${v.version}`} kind="plain" items=${actions(v)} />` },
  ];
  return html`
    <${Listing} of=${versions} label="Versions" columns=${columns} id=${(/** @type {any} */ v) => v.version} empty=${html`<${Empty} title="No versions yet"><p>Each registered checkpoint becomes a new version.</p><//>`} />
    ${changed && html`<${EditVersion} version=${changed} path=${path} onClose=${() => setChanged(null)} onDone=${reload} />`}
    ${doomed && html`<${AskDelete} what=${`version ${doomed.version}`} path=${`${path}/versions/${doomed.version}`} onDone=${reload} onClose=${() => setDoomed(null)}>The version is deleted. Its checkpoint is kept.<//>`}
  `;
}

/** @param {{ path: string, onClose: () => void, onDone: () => Promise<void> }} props */
function Register({ path, onClose, onDone }) {
  const [uuid, setUuid] = useState("");
  const [name, setName] = useState("");
  const [comment, setComment] = useState("");
  const act = async () => {
    await post(`${path}/versions`, { checkpointUuid: uuid.trim(), name, comment });
    await onDone();
  };
  return html`
    <${Ask} title="Register a checkpoint" act="Register" off=${!uuid.trim()} onAct=${act} onClose=${onClose}>
      <${Line} label="Checkpoint" hint="The UUID, from the Checkpoints tab of an experiment" class="input mono" value=${uuid} set=${setUuid} />
      <${Line} label="Name" value=${name} set=${setName} />
      <${Line} label="Comment" value=${comment} set=${setComment} />
    <//>
  `;
}
