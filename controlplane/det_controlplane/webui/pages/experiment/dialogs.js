// What is asked before an experiment is forked, continued, renamed or moved.
import { get, post, send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { go } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { Field, Loaded } from "../../parts/basic.js";
import { Verdict } from "../../parts/checked.js";
import { Ask, tell } from "../../parts/overlay.js";
import { useVerdict } from "./verdict.js";

/** @typedef {{ experiment: any, onClose: () => void, onDone?: () => Promise<void> }} Props */

/** @param {any} e */
const configOf = (e) => e.originalConfig || JSON.stringify(e.config, null, 2);

/** @param {Props} props */
export function Fork({ experiment, onClose }) {
  const [config, setConfig] = useState(configOf(experiment));
  const verdict = useVerdict(config, experiment);
  const create = async () => {
    const made = await post("/api/v1/experiments", { config, parentId: experiment.id, projectId: experiment.projectId, activate: true });
    tell(`Created experiment ${made.experiment.id}`);
    go(`/experiments/${made.experiment.id}`);
  };
  return html`
    <${Ask} title=${`New experiment from ${experiment.id}`} act="Create" wide off=${!verdict.fits} onAct=${create} onClose=${onClose}>
      <p class="soft">It trains with the code of experiment ${experiment.id}; change what it is given.</p>
      <${Editor} config=${config} setConfig=${setConfig} bad=${verdict.problems} />
      <${Verdict} of=${verdict} what="This configuration is valid." />
    <//>
  `;
}

/** @param {{ config: string, setConfig: (text: string) => void, bad: string }} props */
const Editor = ({ config, setConfig, bad }) => html`
  <${Field} label="Configuration, in YAML">
    <textarea class="input code" spellcheck=${false} aria-invalid=${bad ? "true" : "false"} value=${config} onInput=${(/** @type {any} */ e) => setConfig(e.target.value)} />
  <//>
`;

/** @param {Props} props */
export function Continue({ experiment, onClose, onDone }) {
  const [config, setConfig] = useState("");
  const act = async () => {
    await post("/api/v1/experiments/continue", { id: experiment.id, overrideConfig: config });
    await onDone?.();
  };
  return html`
    <${Ask} title=${`Continue experiment ${experiment.id}`} act="Continue" wide onAct=${act} onClose=${onClose}>
      <p class="soft">Trials go on from their last checkpoints. What is written here replaces parts of the configuration.</p>
      <${Field} label="Changes of the configuration, in YAML" hint="Empty: it goes on as it is.">
        <textarea class="input code short" spellcheck=${false} placeholder=${"searcher:\n  max_length:\n    batches: 2000"} value=${config} onInput=${(/** @type {any} */ e) => setConfig(e.target.value)} />
      <//>
    <//>
  `;
}

/** @param {Props} props */
export function Edit({ experiment, onClose, onDone }) {
  const [name, setName] = useState(experiment.name);
  const [description, setDescription] = useState(experiment.description);
  const [labels, setLabels] = useState(experiment.labels.join(", "));
  const act = async () => {
    const given = labels.split(",").map((/** @type {string} */ l) => l.trim()).filter(Boolean);
    await send("PATCH", `/api/v1/experiments/${experiment.id}`, { name, description, labels: given });
    await onDone?.();
  };
  return html`
    <${Ask} title="Name and labels" act="Save" off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <${Field} label="Name"><input class="input" value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /><//>
      <${Field} label="Description"><input class="input" value=${description} onInput=${(/** @type {any} */ e) => setDescription(e.target.value)} /><//>
      <${Field} label="Labels" hint="Separated by commas"><input class="input" value=${labels} onInput=${(/** @type {any} */ e) => setLabels(e.target.value)} /><//>
    <//>
  `;
}

/** @param {AbortSignal} signal */
async function everyProject(signal) {
  const { workspaces } = await get("/api/v1/workspaces", { limit: -1, archived: false }, { signal });
  const told = await Promise.all(workspaces.map((/** @type {any} */ w) => get(`/api/v1/workspaces/${w.id}/projects`, { limit: -1, archived: false }, { signal })));
  return told.flatMap((t) => t.projects);
}

/** @param {Props} props */
export function Move({ experiment, onClose, onDone }) {
  const projects = useLive(everyProject, []);
  const [to, setTo] = useState("");
  const act = async () => {
    await post(`/api/v1/experiments/${experiment.id}/move`, { experimentId: experiment.id, destinationProjectId: Number(to) });
    await onDone?.();
  };
  return html`
    <${Ask} title="Move to another project" act="Move" off=${!to} onAct=${act} onClose=${onClose}>
      <${Loaded} of=${projects} lines=${1}>
        ${(/** @type {any[]} */ found) => html`
          <${Field} label="Project">
            <select class="input" value=${to} onChange=${(/** @type {any} */ e) => setTo(e.target.value)}>
              <option value="">Choose one</option>
              ${found.filter((p) => p.id !== experiment.projectId).map((p) => html`<option value=${String(p.id)}>${p.workspaceName} / ${p.name}</option>`)}
            </select>
          <//>
        `}
      <//>
    <//>
  `;
}
