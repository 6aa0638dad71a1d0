// One model of the registry with its versions.
import { get, post, send } from "../lib/api.js";
import { ago, moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { go, link } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Field, Head, Loaded, Panel } from "../parts/basic.js";
import { Ask, attempt, Menu } from "../parts/overlay.js";
import { Table } from "../parts/table.js";

/** @param {{ id: string }} props */
export function Page({ id }) {
  const path = `/api/v1/models/${encodeURIComponent(id)}`;
  const found = useLive(
    async (signal) => {
      const [told, versions] = await Promise.all([get(path, {}, { signal }), get(`${path}/versions`, { limit: 500, sortBy: "SORT_BY_VERSION", orderBy: "ORDER_BY_DESC" }, { signal })]);
      return { model: told.model, versions: versions.modelVersions };
    },
    [id],
    15_000,
  );
  return html`<${Loaded} of=${found}>${(/** @type {any} */ data) => html`<${Shown} ...${data} path=${path} reload=${found.reload} />`}<//>`;
}

/** @param {{ model: any, versions: any[], path: string, reload: () => Promise<void> }} props */
function Shown({ model, versions, path, reload }) {
  const [open, setOpen] = useState("");
  const close = () => setOpen("");
  const archive = (/** @type {string} */ what) => attempt(() => post(`${path}/${what}`), model.archived ? "Unarchived" : "Archived").then(reload);
  return html`
    <${Head} title=${model.name} text=${model.description} beside=${model.archived && html`<span class="label">archived</span>`}>
      <${Button} kind="primary" icon="plus" onClick=${() => setOpen("register")}>Register a checkpoint<//>
      <${Menu} label="More actions" items=${[
        model.archived ? { name: "Unarchive", act: () => void archive("unarchive") } : { name: "Archive", act: () => void archive("archive") },
        { name: "Delete", danger: true, act: () => setOpen("delete") },
      ]} />
    <//>
    <${Panel} title="Versions" flush>
      ${versions.length ? html`<${Versions} versions=${versions} />` : html`<${Empty} title="No versions yet"><p>Each checkpoint that you register becomes the next one.</p><//>`}
    <//>
    ${open === "register" && html`<${Register} path=${path} onClose=${close} onDone=${reload} />`}
    ${open === "delete" &&
    html`
      <${Ask} title=${`Delete ${model.name}?`} act="Delete" danger onClose=${close}
        onAct=${async () => {
          await send("DELETE", path);
          go("/models");
        }}>
        <p class="soft">The model and its versions go; the checkpoints stay.</p>
      <//>
    `}
  `;
}

/** @param {{ versions: any[] }} props */
const Versions = ({ versions }) => html`
  <${Table} label="Versions" total=${versions.length} row=${(/** @type {number} */ i) => versions[i]} columns=${[
    { name: "Version", right: true, cell: (/** @type {any} */ v) => v.version },
    { name: "Name", main: true, cell: (/** @type {any} */ v) => v.name || html`<span class="faint">no name</span>` },
    { name: "Checkpoint", cell: (/** @type {any} */ v) => html`<code>${v.checkpoint.uuid}</code>` },
    { name: "Trained by", cell: (/** @type {any} */ v) => v.checkpoint.training?.trialId && html`<a href=${link(`/trials/${v.checkpoint.training.trialId}`)}>trial ${v.checkpoint.training.trialId}</a>` },
    { name: "Comment", wrap: true, cell: (/** @type {any} */ v) => html`<span class="soft">${v.comment}</span>` },
    { name: "User", cell: (/** @type {any} */ v) => v.username },
    { name: "Registered", right: true, cell: (/** @type {any} */ v) => html`<span title=${moment(v.creationTime)}>${ago(v.creationTime)}</span>` },
  ]} />
`;

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
      <${Field} label="Checkpoint" hint="Its UUID, from the Checkpoints of an experiment"><input class="input mono" value=${uuid} onInput=${(/** @type {any} */ e) => setUuid(e.target.value)} /><//>
      <${Field} label="Name"><input class="input" value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /><//>
      <${Field} label="Comment"><input class="input" value=${comment} onInput=${(/** @type {any} */ e) => setComment(e.target.value)} /><//>
    <//>
  `;
}
