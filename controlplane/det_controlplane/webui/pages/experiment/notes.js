// Notes of an experiment, in Markdown.
import { send } from "../../lib/api.js";
import { may } from "../../lib/rights.js";
import { useUnsavedText } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { Button, Panel } from "../../parts/basic.js";
import { Markdown } from "../../parts/markdown.js";
import { attempt } from "../../parts/overlay.js";

/** @param {{ experiment: any, reload: () => Promise<void> }} props */
export function Notes({ experiment, reload }) {
  const [text, setText] = useState(experiment.notes);
  const [editing, setEditing] = useState(!experiment.notes);
  const edits = may("UPDATE_EXPERIMENT_METADATA", experiment.workspaceId);
  const { changed, saved } = useUnsavedText(text, experiment.notes);
  const shows = !edits || (!editing && !changed);
  const save = async () => {
    const done = await attempt(() => send("PATCH", `/api/v1/experiments/${experiment.id}`, { notes: text }).then(saved), "Notes saved");
    if (done) setEditing(!text);
    await reload();
  };
  const edit = () => {
    setText(experiment.notes);
    setEditing(true);
  };
  if (shows) {
    return html`
      <${Panel} title="Notes" actions=${edits && html`<${Button} onClick=${edit}>Edit<//>`}>
        ${experiment.notes ? html`<${Markdown} text=${experiment.notes} />` : html`<p class="soft">No notes yet.</p>`}
      <//>
    `;
  }
  return html`
    <${Panel} title="Notes" actions=${html`<${Button} kind="primary" disabled=${!changed} onClick=${save}>Save<//>`}>
      <textarea class="input notes" aria-label="Notes" placeholder="Goals, findings and next steps, in Markdown" value=${text} onInput=${(/** @type {any} */ e) => setText(e.target.value)} />
    <//>
  `;
}
