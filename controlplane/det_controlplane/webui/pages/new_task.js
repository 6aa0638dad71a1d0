// Create a notebook, shell, command, TensorBoard or generic task: its settings, and the cluster's check while the user
// types.
import { get, post } from "../lib/api.js";
import { modelDefinition } from "../lib/code_folder.js";
import { counted } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { may } from "../lib/rights.js";
import { go } from "../lib/router.js";
import { KINDS, pathOf } from "../lib/tasks.js";
import { html, useState } from "../lib/view.js";
import { everyProject, usual, workspaces } from "../lib/workspaces.js";
import { Loaded } from "../parts/basic.js";
import { useChecked, Verdict } from "../parts/checked.js";
import { Choice, Code, Line } from "../parts/fields.js";
import { Ask } from "../parts/overlay.js";
import { hourly } from "./experiment/config_check.js";
import { Files } from "./new_experiment.js";

/** @type {Record<string, string>} */
const ABOUT = {
  notebook: "JupyterLab in a container. Save files you want to keep to a mounted directory.",
  shell: "A container with a terminal in the page. Save files you want to keep to a mounted directory.",
  command: "A program that runs once. Its output is the task log.",
  tensorboard: "Metrics of experiments and trials in TensorBoard.",
  generic: "A program that can be paused and resumed, and can start child tasks.",
};
const RUN = ["command", "generic"];
const WITH_FILES = ["notebook", "shell", "command", "generic"];

/**
 * @typedef {{ description: string, command: string, experiments: string, trials: string, place: string, template: string, pool: string, slots: string, image: string, more: string }} Given
 * @typedef {{ pools: any[], places: { id: number, name: string }[], templates: any[] }} Offered
 */

/** Where a task can be put: projects for generic ones, workspaces for others. @param {string} kind @param {AbortSignal} signal @returns {Promise<Offered>} */
async function offered(kind, signal) {
  const [{ resourcePools }, places, { templates }] = await Promise.all([
    get("/api/v1/resource-pools", {}, { signal }),
    kind === "generic" ? everyProject(signal) : workspaces(signal),
    kind === "generic" ? { templates: [] } : get("/api/v1/templates", { limit: -1 }, { signal }),
  ]);
  const named = places.map((p) => ({ id: p.id, name: p.workspaceName ? `${p.workspaceName} / ${p.name}` : p.name, workspace: p.workspaceId ?? p.id }));
  return { pools: resourcePools, places: named.filter((p) => may("CREATE_NSC", p.workspace)), templates };
}

/** @param {string} text */
const ids = (text) => (text.match(/\d+/g) ?? []).map(Number);

/** What the API is asked to launch. @param {string} kind @param {Given} g */
function requestOf(kind, g) {
  const resources = { ...(kind === "tensorboard" ? {} : { slots: Number(g.slots) }), ...(g.pool ? { resource_pool: g.pool } : {}) };
  const config = {
    ...(g.description.trim() ? { description: g.description.trim() } : {}),
    ...(RUN.includes(kind) && g.command.trim() ? { entrypoint: [g.command] } : {}),
    ...(g.image.trim() ? { environment: { image: g.image.trim() } } : {}),
    resources,
  };
  if (kind === "generic") return { config: JSON.stringify(config), configText: g.more, projectId: Number(g.place) };
  const drawn = kind === "tensorboard" ? { experimentIds: ids(g.experiments), trialIds: ids(g.trials) } : {};
  return { config, configText: g.more, workspaceId: Number(g.place), templateName: g.template, ...drawn };
}

/** Say where it would run and what an hour costs; throws what is wrong. @param {string} kind @param {Given} given @param {Offered} of @param {AbortSignal} signal */
async function judge(kind, given, of, signal) {
  if (RUN.includes(kind) && !given.command.trim() && !/^entrypoint:/m.test(given.more)) throw new Error("Enter the command to run.");
  if (kind === "tensorboard" && !ids(given.experiments).length && !ids(given.trials).length) throw new Error("Enter at least one experiment or trial ID.");
  const told = await post(pathOf(kind), { ...requestOf(kind, given), preview: true }, { signal });
  const { slots, resource_pool } = told.config.resources;
  const usualPool = of.pools.find((p) => (slots ? p.defaultComputePool : p.defaultAuxPool))?.name;
  const name = told[kind]?.resourcePool || resource_pool || usualPool;
  const cost = await hourly(name, slots, signal).catch(() => "");
  const few = told.warnings.length ? " No current machine has that many slots." : "";
  return [`Uses ${slots ? counted(slots, "slot") : "no slots"} in pool ${name}.${few}`, cost, ...(told.configWarnings ?? [])].filter(Boolean).join(" ");
}

/** @param {{ kind: string, experiments?: string, trials?: string, onClose: () => void }} props */
export function NewTask({ kind, experiments = "", trials = "", onClose }) {
  const found = useLive((signal) => offered(kind, signal), [kind]);
  if (!found.data) return html`<${Loaded} of=${found} lines=${1}>${() => null}<//>`;
  return html`<${Form} kind=${kind} of=${found.data} experiments=${experiments} trials=${trials} onClose=${onClose} />`;
}

/** @param {{ kind: string, of: Offered, experiments: string, trials: string, onClose: () => void }} props */
function Form({ kind, of, experiments, trials, onClose }) {
  const start = { description: "", command: "", experiments, trials, place: String(usual(of.places)?.id ?? ""), template: "", pool: "", slots: "0", image: "", more: "" };
  const [given, setGiven] = useState(/** @type {Given} */ (start));
  const [folder, setFolder] = useState(/** @type {import("../lib/code_folder.js").Folder | null} */ (null));
  /** @param {keyof Given} name */
  const field = (name) => ({ value: given[name], set: (/** @type {string} */ value) => setGiven((was) => ({ ...was, [name]: value })) });
  const verdict = useChecked((signal) => judge(kind, given, of, signal), [JSON.stringify(given)]);
  const act = async () => {
    const files = folder ? { [kind === "generic" ? "contextDirectory" : "files"]: await modelDefinition(folder.files) } : {};
    const made = await post(pathOf(kind), { ...requestOf(kind, given), ...files });
    go(`/tasks/${kind}/${made.taskId ?? made[kind].id}`);
  };
  const name = kind === "generic" ? "generic task" : KINDS[kind] === "TensorBoard" ? KINDS[kind] : kind;
  return html`
    <${Ask} title=${`New ${name}`} act="Start" wide unsaved=${!!(given.command || given.more)} off=${!verdict.fits || !!folder?.problem} onAct=${act} onClose=${onClose}>
      <p class="soft">${ABOUT[kind]}</p>
      ${RUN.includes(kind) && html`<${Code} label="Command" hint="As you would type it in a shell" short placeholder="python3 prepare.py --out /data" ...${field("command")} />`}
      <div class="fields">
        ${kind === "tensorboard" && html`<${Line} label="Experiments" hint="IDs, separated by commas" placeholder="12, 15" ...${field("experiments")} /><${Line} label="Trials" hint="IDs, separated by commas" ...${field("trials")} />`}
        <${Line} label="Description" hint="Leave empty to generate a name" ...${field("description")} />
        <${Choice} label=${kind === "generic" ? "Project" : "Workspace"} of=${of.places.map((p) => /** @type {[string, string]} */ ([String(p.id), p.name]))} ...${field("place")} />
        ${of.templates.length > 0 && html`<${Choice} label="Template" of=${[["", "None"], ...of.templates.map((t) => [t.name, t.name])]} ...${field("template")} />`}
        <${Choice} label="Resource pool" of=${[["", "Default pool"], ...of.pools.map((p) => [p.name, p.name])]} ...${field("pool")} />
        ${kind !== "tensorboard" && html`<${Line} label="Slots" hint="0 for no accelerator" type="number" min="0" ...${field("slots")} />`}
        <${Line} label="Image" hint="Leave empty for the default image" placeholder="pytorch/pytorch:latest" ...${field("image")} />
      </div>
      ${WITH_FILES.includes(kind) && html`<details><summary>Initial files</summary><${Files} folder=${folder} setFolder=${setFolder} /></details>`}
      <details>
        <summary>Advanced configuration</summary>
        <${Code} label="YAML" hint="Overrides the fields above" short placeholder=${"environment:\n  environment_variables:\n    - MODE=fast\nidle_timeout: 2h"} bad=${!!verdict.problems && !!given.more} ...${field("more")} />
      </details>
      <${Verdict} of=${verdict} what="Ready to start." />
    <//>
  `;
}
