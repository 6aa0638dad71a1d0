// Create an experiment: its code, its configuration, and the cluster's check of both.
import { ApiError, get, post } from "../lib/api.js";
import { folderOf, modelDefinition } from "../lib/code_folder.js";
import { counted, size } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { may } from "../lib/rights.js";
import { go, place, useUnsaved } from "../lib/router.js";
import { html, useEffect, useState } from "../lib/view.js";
import { everyProject, placeOf } from "../lib/workspaces.js";
import { Button, Failure, Head, Panel } from "../parts/basic.js";
import { Verdict } from "../parts/checked.js";
import { Choice, Code, Tick } from "../parts/fields.js";
import { tell } from "../parts/overlay.js";
import { useVerdict } from "./experiment/config_check.js";

/** @typedef {import("../lib/code_folder.js").Folder} Folder */

const SHOWN = 8;
const TOO_LARGE = 413;
const FIRST = `name: my first experiment
entrypoint: python3 train.py
hyperparameters:
  learning_rate: 0.01
searcher:
  name: single  # model_asha searches for good hyperparameters
  metric: validation_loss
`;

export function Page() {
  const [folder, setFolder] = useState(/** @type {Folder | null} */ (null));
  const [config, setConfig] = useState(FIRST);
  const [taken, setTaken] = useState(FIRST);
  const [template, setTemplate] = useState("");
  const [project, setProject] = useState(place.value.query.get("project") ?? "");
  const [paused, setPaused] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const given = { config, ...(template ? { template } : {}), ...(project ? { projectId: Number(project) } : {}) };
  const verdict = useVerdict(given);
  const { release, hold } = useUnsaved(config !== taken);
  const take = (/** @type {string} */ text) => (setConfig(text), setTaken(text));
  const create = async () => {
    setBusy(true);
    setError(undefined);
    release();
    try {
      const made = await post("/api/v1/experiments", { ...given, modelDefinition: await modelDefinition(folder?.files ?? []), activate: !paused });
      tell(`Created experiment ${made.experiment.id}`);
      go(`/experiments/${made.experiment.id}`);
    } catch (e) {
      hold();
      setError(explained(/** @type {Error} */ (e)));
      setBusy(false);
    }
  };
  return html`
    <${Head} title="New experiment" text="Upload your code and a configuration to start training" />
    <div class="stack">
      <${Panel} title="Code"><${Files} folder=${folder} setFolder=${setFolder} /><//>
      <${Panel} title="Configuration">
        <div class="stack">
          <${FromFile} folder=${folder} setConfig=${take} fresh=${config === FIRST} />
          <${Code} label="Configuration, in YAML" value=${config} set=${setConfig} bad=${!!verdict.problems} style=${{ minHeight: "16rem" }} />
          <div class="fields"><${Places} template=${template} setTemplate=${setTemplate} project=${project} setProject=${setProject} /></div>
          <${Tick} label="Start paused" hint="It does not run until someone resumes it." value=${paused} set=${setPaused} />
          <${Verdict} of=${verdict} what="This configuration is valid." />
          ${!folder && html`<p class="soft">No code selected. The entrypoint must already exist in the image.</p>`}
          <${Failure} error=${error} />
          <div class="row"><${Button} kind="primary" disabled=${busy || !verdict.fits || !!folder?.problem} onClick=${create}>${busy ? "Uploading …" : "Create experiment"}<//></div>
        </div>
      <//>
    </div>
  `;
}

/** Say what helps where a host takes no request so large. @param {Error} error */
const explained = (error) =>
  error instanceof ApiError && error.status === TOO_LARGE
    ? new Error("The request is too large for the host of this cluster. Exclude files with .detignore, or use `det experiment create`, which uploads code separately.")
    : error;

/** @param {{ folder: Folder | null, setFolder: (folder: Folder | null) => void }} props */
export function Files({ folder, setFolder }) {
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  /** @param {any} e */
  const take = (e) => {
    setError(undefined);
    if (e.target.files.length) folderOf(e.target.files).then(setFolder, setError);
  };
  return html`
    <div class="stack">
      <p class="soft">Select the folder with your script. Files matched by <code>.detignore</code>, bytecode and <code>.git</code> are not uploaded.</p>
      <div class="fields">
        <label class="field"><span>Folder</span><input class="input" type="file" webkitdirectory onChange=${take} /></label>
        <label class="field"><span>Or individual files</span><input class="input" type="file" multiple onChange=${take} /></label>
      </div>
      <${Failure} error=${error} />
      ${folder &&
      html`
        <div role="status" class=${folder.problem ? "notice red" : ""}>
          <p>${folder.problem || html`${counted(folder.files.length, "file")}, ${size(folder.bytes)}${folder.name && html` of <code>${folder.name}</code>`}${folder.left > 0 && html`; ${folder.left} excluded`}.`}</p>
        </div>
        <ul class="soft small mono">
          ${folder.files.slice(0, SHOWN).map((f) => html`<li class="cut">${f.path}</li>`)}
          ${folder.files.length > SHOWN && html`<li>and ${folder.files.length - SHOWN} more</li>`}
        </ul>
      `}
    </div>
  `;
}

/**
 * Offer the configurations that lie beside the code; the only one is taken at once where nothing was written yet.
 * @param {{ folder: Folder | null, setConfig: (text: string) => void, fresh: boolean }} props
 */
function FromFile({ folder, setConfig, fresh }) {
  const [chosen, setChosen] = useState("");
  const found = (folder?.files ?? []).filter((f) => /^[^/]+\.(ya?ml|json)$/.test(f.path));
  /** @param {string} path */
  const take = (path) => {
    setChosen(path);
    found.find((f) => f.path === path)?.file.text().then(setConfig);
  };
  useEffect(() => (found.length === 1 && fresh ? take(found[0].path) : setChosen("")), [folder]);
  if (!found.length) return null;
  return html`<${Choice} label="Load from a file" value=${chosen} set=${take} of=${[["", "Select a file"], ...found.map((f) => [f.path, f.path])]} />`;
}

/** @param {{ template: string, setTemplate: (name: string) => void, project: string, setProject: (id: string) => void }} props */
function Places({ template, setTemplate, project, setProject }) {
  const told = useLive(async (signal) => {
    const [projects, { templates }] = await Promise.all([everyProject(signal), get("/api/v1/templates", { limit: -1 }, { signal })]);
    return { projects: projects.filter((p) => may("CREATE_EXPERIMENT", p.workspaceId)), templates };
  }, []);
  const { projects = [], templates = [] } = told.data ?? {};
  return html`
    <${Choice} label="Project" value=${project} set=${setProject} of=${[["", "From the configuration"], ...projects.map((/** @type {any} */ p) => [String(p.id), placeOf(p)])]} />
    ${templates.length > 0 && html`<${Choice} label="Template" value=${template} set=${setTemplate} of=${[["", "None"], ...templates.map((/** @type {any} */ t) => [t.name, t.name])]} />`}
  `;
}
