// Changing a model and its versions.
import { send } from "../lib/api.js";
import { html, useState } from "../lib/view.js";
import { Field } from "../parts/basic.js";
import { Ask } from "../parts/overlay.js";

/** @param {string} labels separated by commas */
const split = (labels) => labels.split(",").map((l) => l.trim()).filter(Boolean);

/** @param {{ model: any, path: string, onClose: () => void, onDone: () => Promise<void> }} props */
export function Edit({ model, path, onClose, onDone }) {
  const [name, setName] = useState(model.name);
  const [description, setDescription] = useState(model.description);
  const [labels, setLabels] = useState(model.labels.join(", "));
  const [notes, setNotes] = useState(model.notes ?? "");
  const act = async () => {
    await send("PATCH", path, { ...(name === model.name ? {} : { name }), description, labels: split(labels), notes });
    await onDone();
  };
  return html`
    <${Ask} title=${`Edit ${model.name}`} act="Save" off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <${Field} label="Name"><input class="input" value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /><//>
      <${Field} label="Description"><input class="input" value=${description} onInput=${(/** @type {any} */ e) => setDescription(e.target.value)} /><//>
      <${Field} label="Labels" hint="separated by commas"><input class="input" value=${labels} onInput=${(/** @type {any} */ e) => setLabels(e.target.value)} /><//>
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
      <${Field} label="Name"><input class="input" value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /><//>
      <${Field} label="Comment"><input class="input" value=${comment} onInput=${(/** @type {any} */ e) => setComment(e.target.value)} /><//>
      <${Field} label="Notes"><textarea class="input" rows="4" value=${notes} onInput=${(/** @type {any} */ e) => setNotes(e.target.value)} /><//>
    <//>
  `;
}
