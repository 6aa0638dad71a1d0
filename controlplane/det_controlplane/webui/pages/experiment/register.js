// A checkpoint becomes a version of a model, of one that is there or of a new one.
import { get, post } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { go } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { Field, Loaded } from "../../parts/basic.js";
import { Ask, tell } from "../../parts/overlay.js";

const NEW = "";

/** @param {AbortSignal} signal */
const models = async (signal) => (await get("/api/v1/models", { limit: -1, archived: false, sortBy: "SORT_BY_NAME" }, { signal })).models;

/** @param {{ checkpoint: any, onClose: () => void }} props */
export function Register({ checkpoint, onClose }) {
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
    // What was made stays if the next call fails, so that pressing again makes no second model.
    setModel(String(id));
    const told = await post(`/api/v1/models/${id}/versions`, { checkpointUuid: checkpoint.uuid, name: version, comment });
    tell(`Registered version ${told.modelVersion.version}`);
    go(`/models/${id}`);
  };
  const made = known.every((m) => String(m.id) !== model) && model !== NEW;
  return html`
    <${Ask} title="Register this checkpoint" act="Register" off=${model === NEW && !name.trim()} onAct=${act} onClose=${onClose}>
      <${Field} label="Model">
        <select class="input" value=${model} onChange=${(/** @type {any} */ e) => setModel(e.target.value)}>
          ${known.map((m) => html`<option value=${String(m.id)}>${m.name}</option>`)}
          ${made && html`<option value=${model}>${name}</option>`}
          <option value=${NEW}>A new model</option>
        </select>
      <//>
      ${model === NEW && html`<${Field} label="Name of the new model"><input class="input" value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /><//>`}
      <${Field} label="Name of the version" hint="If it needs one beside its number"><input class="input" value=${version} onInput=${(/** @type {any} */ e) => setVersion(e.target.value)} /><//>
      <${Field} label="Comment"><input class="input" value=${comment} onInput=${(/** @type {any} */ e) => setComment(e.target.value)} /><//>
    <//>
  `;
}
