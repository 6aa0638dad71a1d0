// Dialogs that fork, continue or rename an experiment.
import { post, send } from "../../lib/api.js";
import { labelsOf } from "../../lib/format.js";
import { go } from "../../lib/router.js";
import { html, useLayoutEffect, useState } from "../../lib/view.js";
import { fixed, isBlock, withParts, yaml } from "../../lib/yaml.js";
import { useChecked, Verdict } from "../../parts/checked.js";
import { Code, Line, Tick } from "../../parts/fields.js";
import { Ask, tell } from "../../parts/overlay.js";
import { useVerdict } from "./config_check.js";

/** @typedef {{ experiment: any, onClose: () => void, onDone?: () => Promise<void> }} Props */

/** @param {any} e */
const configOf = (e) => e.originalConfig || yaml(e.config);

/** Return the configuration of one more training with what a trial was given. @param {any} e @param {any} trial @param {boolean} goesOn from its last checkpoint */
function configOfTrial(e, trial, goesOn) {
  const { metric, smaller_is_better, max_length, time_metric, max_time } = e.config.searcher;
  const length = max_length ?? (["batches", "epochs", "records"].includes(time_metric) && max_time ? { [time_metric]: max_time } : undefined);
  const searcher = { name: "single", metric, smaller_is_better, ...(length ? { max_length: length } : {}), ...(goesOn ? { source_trial_id: trial.id } : {}) };
  const parts = { name: `${e.name} (trial ${trial.id})`, hyperparameters: fixed(trial.hparams), searcher };
  return isBlock(e.originalConfig) ? withParts(e.originalConfig, parts) : yaml({ ...e.config, ...parts });
}

/** @param {Props & { trial?: any }} props */
export function Fork({ experiment, trial, onClose }) {
  const [goesOn, setGoesOn] = useState(false);
  const start = () => (trial ? configOfTrial(experiment, trial, goesOn) : configOf(experiment));
  const [config, setConfig] = useState(start);
  const [activate, setActivate] = useState(true);
  const verdict = useVerdict({ config, parentId: experiment.id, projectId: experiment.projectId });
  useLayoutEffect(() => setConfig(start()), [goesOn]);
  const create = async () => {
    const made = await post("/api/v1/experiments", { config, parentId: experiment.id, projectId: experiment.projectId, activate });
    tell(`Created experiment ${made.experiment.id}`);
    go(`/experiments/${made.experiment.id}`);
  };
  const of = trial ? `trial ${trial.id}` : `experiment ${experiment.id}`;
  return html`
    <${Ask} title=${`New experiment from ${of}`} act="Create" wide unsaved=${config !== start()} off=${!verdict.fits} onAct=${create} onClose=${onClose}>
      <p class="soft">Uses the code of experiment ${experiment.id}${trial ? ` and the hyperparameters of trial ${trial.id}` : ""}. Edit the configuration below.</p>
      ${trial && html`<${Tick} label="Start from its latest checkpoint" hint="Otherwise it trains from scratch. Changing this discards your edits below." value=${goesOn} set=${setGoesOn} />`}
      <${Editor} config=${config} setConfig=${setConfig} bad=${verdict.problems} />
      <${Verdict} of=${verdict} what="This configuration is valid." />
      <${Tick} label="Start paused" hint="It does not run until someone resumes it." value=${!activate} set=${(/** @type {boolean} */ paused) => setActivate(!paused)} />
    <//>
  `;
}

/** @param {{ config: string, setConfig: (text: string) => void, bad: string }} props */
export const Editor = ({ config, setConfig, bad }) => html`<${Code} label="Configuration, in YAML" value=${config} set=${setConfig} bad=${!!bad} />`;

/** @param {Props} props */
export function Continue({ experiment, onClose, onDone }) {
  const [config, setConfig] = useState("");
  const path = "/api/v1/experiments/continue";
  const asked = useChecked(async (signal) => {
    await post(path, { id: experiment.id, overrideConfig: config, validateOnly: true }, { signal });
    return "";
  }, [config]);
  const act = async () => {
    await post(path, { id: experiment.id, overrideConfig: config });
    await onDone?.();
  };
  return html`
    <${Ask} title=${`Continue experiment ${experiment.id}`} act="Continue" wide unsaved=${!!config} off=${!asked.fits} onAct=${act} onClose=${onClose}>
      <p class="soft">Trials resume from their latest checkpoints. Settings below override the configuration.</p>
      <${Code} label="Configuration overrides, in YAML" hint="Leave empty to keep the configuration." short value=${config} set=${setConfig} bad=${!!asked.problems} placeholder=${"hyperparameters:\n  learning_rate: 0.001\nmax_restarts: 5"} />
      <${Verdict} of=${asked} what="Ready to continue." />
    <//>
  `;
}

/** @param {Props} props */
export function Edit({ experiment, onClose, onDone }) {
  const [name, setName] = useState(experiment.name);
  const [description, setDescription] = useState(experiment.description);
  const [labels, setLabels] = useState(experiment.labels.join(", "));
  const act = async () => {
    await send("PATCH", `/api/v1/experiments/${experiment.id}`, { name, description, labels: labelsOf(labels) });
    await onDone?.();
  };
  return html`
    <${Ask} title="Name and labels" act="Save" off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} />
      <${Line} label="Description" value=${description} set=${setDescription} />
      <${Line} label="Labels" hint="Separated by commas" value=${labels} set=${setLabels} />
    <//>
  `;
}
