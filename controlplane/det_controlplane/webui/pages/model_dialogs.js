// Changing a model and its versions.
import { send } from "../lib/api.js";
import { labelsOf } from "../lib/format.js";
import { html, useState } from "../lib/view.js";
import { Field } from "../parts/basic.js";
import { Line } from "../parts/fields.js";
import { Ask } from "../parts/overlay.js";

/** @param {{ model: any, path: string, onClose: () => void, onDone: () => Promise<void> }} props */
export function Edit({ model, path, onClose, onDone }) {
  const [name, setName] = useState(model.name);
  const [description, setDescription] = useState(model.description);
  const [labels, setLabels] = useState(model.labels.join(", "));
  const [notes, setNotes] = useState(model.notes ?? "");
  const act = async () => {
    await send("PATCH", path, { ...(name === model.name ? {} : { name }), description, labels: labelsOf(labels), notes });
    await onDone();
  };
  return html`
    <${Ask} title=${`Edit ${model.name}`} act="Save" off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} />
      <${Line} label="Description" value=${description} set=${setDescription} />
      <${Line} label="Labels" hint="Separated by commas" value=${labels} set=${setLabels} />
      <${Field} label="Notes"><textarea class="input" rows="4" value=${notes} onInput=${(/** @type {any} */ e) => setNotes(e.target.value)} /><//>
    <//>
  `;
}

/** @param {{ version: any, path: string, onClose: () => void, onDone: () => Promise<void> }} props */
export function EditVersion({ version, path, onClose, onDone }) {
  const [name, setName] = useState(version.name);
  const [comment, setComment] = useState(version.comment);
  const [notes, setNotes] = useState(version.notes ?? "");
  const act = async () => {
    await send("PATCH", `${path}/versions/${version.version}`, { name, comment, notes });
    await onDone();
  };
  return html`
    <${Ask} title=${`Edit version ${version.version}`} act="Save" onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} />
      <${Line} label="Comment" value=${comment} set=${setComment} />
      <${Field} label="Notes"><textarea class="input" rows="4" value=${notes} onInput=${(/** @type {any} */ e) => setNotes(e.target.value)} /><//>
    <//>
  `;
}
