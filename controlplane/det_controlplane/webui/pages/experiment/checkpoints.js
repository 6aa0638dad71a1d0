// The present and deleted checkpoints of an experiment.
import { get, post, send } from "../../lib/api.js";
import { counted, metric, moment, size } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { rowsOf, usePaged } from "../../lib/paged.js";
import { keeps, may, maySomewhere } from "../../lib/rights.js";
import { go, link } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { Button, Empty, Loaded, Pairs, Panel, State } from "../../parts/basic.js";
import { Check, Choice, Line } from "../../parts/fields.js";
import { Listing } from "../../parts/listing.js";
import { Ask, Dialog, tell } from "../../parts/overlay.js";
import { ChosenBar } from "../../parts/table.js";
import { Ago } from "../../parts/time.js";

const SHOWN = ["STATE_ACTIVE", "STATE_COMPLETED", "STATE_PARTIALLY_DELETED"];
const GOING_MS = 2_000;

/** @param {Record<string, string>} resources */
const total = (resources) => Object.values(resources ?? {}).reduce((sum, bytes) => sum + Number(bytes), 0);

/** Tell whether a checkpoint has all of its files. @param {any} c */
const isWhole = (c) => c.state === "STATE_COMPLETED";

/** @param {{ experiment?: any, trial?: any }} props of one or the other */
export function Checkpoints({ experiment, trial }) {
  const path = trial ? `/api/v1/trials/${trial.id}/checkpoints` : `/api/v1/experiments/${experiment.id}/checkpoints`;
  const [all, setAll] = useState(false);
  // A separate task deletes the chosen checkpoints some seconds later.
  const [doomed, setDoomed] = useState(/** @type {Set<string>} */ (new Set()));
  const isGoing = (/** @type {any} */ c) => doomed.has(c.uuid) && isWhole(c);
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get(path, { offset, limit, sortByAttr: "SORT_BY_END_TIME", orderBy: "ORDER_BY_DESC", states: all ? [] : SHOWN }, { signal });
      return { rows: told.checkpoints, total: told.pagination.total };
    },
    [path, all],
    { every: (parts) => (parts.some(({ rows }) => rows.some(isGoing)) ? GOING_MS : 0), mark: (trial ?? experiment).revision },
  );
  const actions = html`<${Check} label="Show deleted" value=${all} onChange=${() => setAll(!all)} />`;
  return html`
    <${Panel} title="Checkpoints" actions=${actions} flush>
      <${Rows} experiment=${experiment} found=${found} isGoing=${isGoing} doom=${(/** @type {string[]} */ uuids) => setDoomed(new Set([...doomed, ...uuids]))} />
    <//>
  `;
}

/** @param {{ experiment: any, found: import("../../lib/paged.js").Paged, isGoing: (checkpoint: any) => boolean, doom: (uuids: string[]) => void }} props */
function Rows({ experiment, found, isGoing, doom }) {
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const [registered, setRegistered] = useState(/** @type {any} */ (null));
  const [chosen, setChosen] = useState(/** @type {Map<string, any>} */ (new Map()));
  const [sure, setSure] = useState(/** @type {any[]} */ ([]));
  const uuidOf = (/** @type {any} */ c) => c.uuid;
  const deletes = !!experiment && keeps(experiment) && may("UPDATE_EXPERIMENT", experiment.workspaceId);
  const rest = [...chosen.values()].filter((c) => isWhole(c) && !isGoing(c));
  const remove = async () => {
    const uuids = sure.map(uuidOf);
    await send("DELETE", "/api/v1/checkpoints", { checkpointUuids: uuids });
    tell(`Deleting ${counted(uuids.length, "checkpoint")}`);
    doom(uuids);
    setChosen(new Map());
    await found.reload();
  };
  const columns = [
    { name: "Checkpoint", cell: (/** @type {any} */ c) => html`<button type="button" class="link mono" onClick=${() => setShown(c)}>${c.uuid.slice(0, 8)}</button>` },
    { name: "Trial", right: true, cell: (/** @type {any} */ c) => c.training?.trialId && html`<a href=${link(`/trials/${c.training.trialId}`)}>${c.training.trialId}</a>` },
    { name: "Batches", right: true, cell: (/** @type {any} */ c) => metric(c.metadata?.steps_completed) },
    { name: "Metric", right: true, cell: (/** @type {any} */ c) => metric(c.training?.searcherMetric) },
    { name: "State", cell: (/** @type {any} */ c) => html`<${State} state=${isGoing(c) ? "DELETING" : c.state} />${c.filesMissing && html` <span class="soft">files missing</span>`}` },
    { name: "Size", right: true, cell: (/** @type {any} */ c) => size(total(c.resources)) },
    { name: "Saved", right: true, cell: (/** @type {any} */ c) => html`<${Ago} at=${c.reportTime} />` },
  ];
  return html`
    <${Listing} of=${found} label="Checkpoints" columns=${columns} id=${uuidOf}
      choice=${deletes ? { chosen: new Set(chosen.keys()), onChange: (/** @type {Set<string>} */ next) => setChosen(rowsOf(next, chosen, found, uuidOf)) } : undefined}
      empty=${html`<${Empty} title="No checkpoints"><p>Trials save checkpoints as configured and whenever they are paused.</p><//>`} />
    <${ChosenBar} count=${chosen.size} what="checkpoint" clear=${() => setChosen(new Map())}>
      ${rest.length > 0 && html`<${Button} kind="danger" icon="close" onClick=${() => setSure(rest)}>Delete${rest.length < chosen.size ? ` ${rest.length.toLocaleString("en")}` : ""}<//>`}
    <//>
    ${shown && html`<${Details} checkpoint=${shown} deletes=${deletes && !isGoing(shown)} onClose=${() => setShown(null)} onDelete=${() => (setSure([shown]), setShown(null))} onRegister=${() => (setRegistered(shown), setShown(null))} />`}
    ${registered && html`<${Register} checkpoint=${registered} onClose=${() => setRegistered(null)} />`}
    ${sure.length > 0 &&
    html`
      <${Ask} title=${sure.length > 1 ? `Delete ${counted(sure.length, "checkpoint")}?` : "Delete this checkpoint?"} act="Delete" danger onClose=${() => setSure([])} onAct=${remove}>
        <p class="soft">This permanently deletes ${counted(sure.reduce((sum, c) => sum + Object.keys(c.resources).length, 0), "file")} (${size(sure.reduce((sum, c) => sum + total(c.resources), 0))}).</p>
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
      ["Command line", html`<code>det checkpoint download ${checkpoint.uuid}</code>`],
    ]} />
    <ul class="files">${Object.entries(checkpoint.resources ?? {}).map(([path, bytes]) => html`<li class="row row-wide"><code>${path}</code><span class="number soft">${path.endsWith("/") ? "" : size(/** @type {string} */ (bytes))}</span></li>`)}</ul>
    <div class="dialog-foot">
      ${isWhole(checkpoint) && html`
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

const NEW = "";

/** @param {AbortSignal} signal */
const models = async (signal) => (await get("/api/v1/models", { limit: -1, archived: false, sortBy: "SORT_BY_NAME" }, { signal })).models;

/** @param {{ checkpoint: any, onClose: () => void }} props */
function Register({ checkpoint, onClose }) {
  const known = useLive(models, []);
  return html`<${Loaded} of=${known} lines=${1}>${(/** @type {any[]} */ found) => html`<${Form} checkpoint=${checkpoint} known=${found} onClose=${onClose} />`}<//>`;
}

/** @param {{ checkpoint: any, known: any[], onClose: () => void }} props */
function Form({ checkpoint, known, onClose }) {
  const [model, setModel] = useState(known.length ? String(known[0].id) : NEW);
  const [name, setName] = useState("");
  const [version, setVersion] = useState("");
  const [comment, setComment] = useState("");
  const act = async () => {
    const id = model === NEW ? (await post("/api/v1/models", { name: name.trim() })).model.id : model;
    // Keep the created model if the next call fails, so that a second click does not create another one.
    setModel(String(id));
    const told = await post(`/api/v1/models/${id}/versions`, { checkpointUuid: checkpoint.uuid, name: version, comment });
    tell(`Registered version ${told.modelVersion.version}`);
    go(`/models/${id}`);
  };
  const made = known.every((m) => String(m.id) !== model) && model !== NEW;
  return html`
    <${Ask} title="Register this checkpoint" act="Register" off=${model === NEW && !name.trim()} onAct=${act} onClose=${onClose}>
      <${Choice} label="Model" value=${model} set=${setModel} of=${[...known.map((m) => [String(m.id), m.name]), ...(made ? [[model, name]] : []), [NEW, "New model"]]} />
      ${model === NEW && html`<${Line} label="Name of the new model" value=${name} set=${setName} />`}
      <${Line} label="Name of the version" hint="Optional" value=${version} set=${setVersion} />
      <${Line} label="Comment" value=${comment} set=${setComment} />
    <//>
  `;
}
