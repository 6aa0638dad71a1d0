// A checkpoint becomes a version of a model, of one that is there or of a new one.
import { get, post } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { go } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { Loaded } from "../../parts/basic.js";
import { Choice, Line } from "../../parts/fields.js";
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
