// Notes of an experiment, kept as text.
import { send } from "../../lib/api.js";
import { may } from "../../lib/rights.js";
import { useUnsavedText } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { Button, Panel } from "../../parts/basic.js";
import { attempt } from "../../parts/overlay.js";

/** @param {{ experiment: any, reload: () => Promise<void> }} props */
export function Notes({ experiment, reload }) {
  const [text, setText] = useState(experiment.notes);
  const edits = may("UPDATE_EXPERIMENT_METADATA", experiment.workspaceId);
  const { changed, saved } = useUnsavedText(text, experiment.notes);
  const save = async () => {
    await attempt(() => send("PATCH", `/api/v1/experiments/${experiment.id}`, { notes: text }).then(saved), "Notes saved");
    await reload();
  };
  return html`
    <${Panel} title="Notes" actions=${edits && html`<${Button} kind="primary" disabled=${!changed} onClick=${save}>Save<//>`}>
      <textarea class="input notes" aria-label="Notes" placeholder="Goals, findings and next steps" readonly=${!edits} value=${text} onInput=${(/** @type {any} */ e) => setText(e.target.value)} />
    <//>
  `;
}
