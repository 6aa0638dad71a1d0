// One experiment: its results, its state and its actions.
import { get, post } from "../../lib/api.js";
import { ACTIONS, command, offered } from "../../lib/experiments.js";
import { counted, ended, metric, money } from "../../lib/format.js";
import { later } from "../../lib/library.js";
import { useLive } from "../../lib/live.js";
import { REST_MS, whenChanged } from "../../lib/revision.js";
import { go, link, place } from "../../lib/router.js";
import { may, maySomewhere } from "../../lib/rights.js";
import { mainReason, toldOf } from "../../lib/why.js";
import { html, useEffect, useMemo, useState } from "../../lib/view.js";
import { placeOf } from "../../lib/workspaces.js";
import { Bones, Button, FailureDetails, Figures, Head, Loaded, Progress, State, Tabs } from "../../parts/basic.js";
import { deadlineFigure } from "../../parts/deadline.js";
import { Ask, attempt, Menu, tell } from "../../parts/overlay.js";
import { Span } from "../../parts/time.js";

/** @type {[string, string, any][]} */
const TABS = [
  ["overview", "Overview", later(() => import("./overview.js"), "Overview", Bones)],
  ["trials", "Trials", later(() => import("./trials.js"), "Trials", Bones)],
  ["search", "Search", later(() => import("./search.js"), "SearchPicture", Bones)],
  ["hyperparameters", "Hyperparameters", later(() => import("./hyperparameters.js"), "Hyperparameters", Bones)],
  ["checkpoints", "Checkpoints", later(() => import("./checkpoints.js"), "Checkpoints", Bones)],
  ["logs", "Logs", later(() => import("./logs.js"), "ExperimentLogs", Bones)],
  ["code", "Code", later(() => import("./code.js"), "Code", Bones)],
  ["configuration", "Configuration", later(() => import("./configuration.js"), "Configuration", Bones)],
  ["notes", "Notes", later(() => import("./notes.js"), "Notes", Bones)],
];
const [Continue, Edit, Fork] = ["Continue", "Edit", "Fork"].map((name) => later(() => import("./dialogs.js"), name));
const MoveExperiments = later(() => import("../../parts/move_experiments.js"), "MoveExperiments");
const LIVE_MS = 2_500;

/** @param {string} tab */
const tabOf = (tab) => (TABS.find(([key]) => key === tab) ?? TABS[0])[2];

/** @param {any} data */
const pace = (data) => (ended(data.experiment.state) ? 0 : LIVE_MS);

/** @param {{ id: string, tab?: string }} props */
export function Page({ id, tab = "overview" }) {
  const fetched = useMemo(() => whenChanged((signal) => get(`/api/v1/experiments/${encodeURIComponent(id)}`, {}, { signal })), [id]);
  const found = useLive((signal) => fetched(id, signal), [id], pace);
  useEffect(() => tabOf(tab).soon(), [tab]);
  return html`<${Loaded} of=${found} title=${`Experiment ${id}`} list=${["/experiments", "All experiments"]}>${(/** @type {any} */ data) => html`<${Shown} data=${data} tab=${tab} reload=${found.reload} />`}<//>`;
}

/** @param {{ data: any, tab: string, reload: () => Promise<void> }} props */
function Shown({ data, tab, reload }) {
  const e = { ...data.experiment, revision: data.revision };
  const Tab = tabOf(tab);
  const beside = html`<${State} state=${e.state} />${e.archived && html`<span class="label">archived</span>`}${e.labels.map((/** @type {string} */ l) => html`<span class="label">${l}</span>`)}`;
  const text = html`Experiment ${e.id} in <a href=${link(`/experiments?project=${e.projectId}`)}>${e.workspaceName} / ${e.projectName}</a> by ${e.displayName || e.username}${e.forkedFrom && html`, forked from <a href=${link(`/experiments/${e.forkedFrom}`)}>${e.forkedFrom}</a>`}${e.description && html`<br />${e.description}`}`;
  return html`
    <${Head} title=${e.name} text=${text} beside=${beside}><${Actions} e=${e} reload=${reload} /><//>
    <div class="stack">
      <${Summary} e=${e} job=${data.jobSummary} tab=${tab} />
      <div>
        <${Tabs} label="Parts of the experiment" tabs=${TABS.map(([key, title, part]) => ({ name: title, href: link(`/experiments/${e.id}/${key}`), chosen: part === Tab }))} />
        <${Tab} experiment=${e} reload=${reload} />
      </div>
    </div>
  `;
}

/** @param {{ e: any, job: any, tab: string }} props */
function Summary({ e, job, tab }) {
  const active = !ended(e.state);
  const told = useLive(
    async (signal) => {
      const [why, cost] = await Promise.all([
        get(`/api/v1/why/experiment/${e.id}`, {}, { signal }).catch(() => ({ reasons: [] })),
        get("/api/v1/costs/experiments", { ids: e.id }, { signal }).catch(() => ({ costs: [] })),
      ]);
      return { reasons: why.reasons, cost: cost.costs[0] };
    },
    [e.id, e.state],
    active ? REST_MS : 0,
    e.revision,
  );
  const reason = mainReason(told.data?.reasons ?? []);
  const said = toldOf(told.data?.reasons ?? [], "The experiment");
  const trial = reason?.failedTrialId ?? reason?.trialId;
  const failed = e.state.includes("ERROR");
  const queue = job && job.jobsAhead > 0 ? `${counted(job.jobsAhead, "job")} ahead in the queue` : "";
  const best = e.bestTrialId ? html`<a href=${link(`/trials/${e.bestTrialId}`)}>trial ${e.bestTrialId}</a> · ${e.searcherMetric}` : e.searcherMetric;
  return html`
    ${said &&
    !/^STATE_(COMPLETED|CANCELED)/.test(e.state) &&
    html`
      <div class=${`notice ${failed ? "red" : ""}`} role="status">
        <p>${said}.${e.state === "STATE_STOPPING_CANCELED" && " “Kill” stops it immediately, without a checkpoint."}${queue && html` <a href=${link(`/queue/${encodeURIComponent(e.resourcePool)}`)}>${queue}</a>.`}</p>
        <${FailureDetails} of=${reason} />
        ${failed && e.numTrials > 0 && !reads(tab, trial) && html`<${Button} href=${link(`/experiments/${e.id}/logs${trial ? `?trial=${trial}` : ""}`)}>View logs<//>`}
      </div>
    `}
    <${Figures} of=${[
      ["Best value", metric(e.bestTrialSearcherMetric), best],
      ["Trials", e.numTrials, e.searcherType],
      ["Progress", e.progress === null ? "–" : `${Math.round(e.progress * 100)} %`, e.progress !== null && html`<${Progress} value=${e.progress} />`],
      ["Duration", html`<${Span} from=${e.startTime} to=${e.endTime} />`, active ? "so far" : undefined],
      ["Cost", money(told.data?.cost?.costUsd), told.data?.cost?.slotHours ? `${metric(told.data.cost.slotHours)} slot hours` : "no rented machines"],
      ...(e.deadline ? [deadlineFigure(e.deadline)] : []),
    ]} />
    ${e.deadline?.reason && !said.includes(e.deadline.reason) && html`<p class="soft small">${e.deadline.reason}.</p>`}
  `;
}

/** Tell whether the log that tells why is open already. @param {string} tab @param {number | null | undefined} trial */
const reads = (tab, trial) => tab === "logs" && (!trial || place.value.query.get("trial") === String(trial));

/** Start a TensorBoard and show where it gets ready. @param {number} id */
async function tensorboard(id) {
  const made = await post("/api/v1/tensorboards", { experimentIds: [id] });
  go(`/tasks/tensorboard/${made.tensorboard.id}`);
}

/** @param {{ e: any, reload: () => Promise<void> }} props */
function Actions({ e, reload }) {
  const [open, setOpen] = useState(/** @type {string} */ (""));
  const close = () => setOpen("");
  /** @param {import("../../lib/experiments.js").Action} a */
  const run = async (a) => {
    const back = a.undo && ACTIONS.find((b) => b.id === a.undo);
    await attempt(() => command(a.id, e.id), `${a.done} experiment ${e.id}`, back ? () => void run(back) : undefined, `experiment ${e.id}`);
    await reload();
  };
  /** @param {any} project */
  const move = async (project) => {
    const to = (/** @type {number} */ id) => post(`/api/v1/experiments/${e.id}/move`, { experimentId: e.id, destinationProjectId: id });
    await to(project.id);
    tell(`Moved to ${placeOf(project)}`, { undo: () => void attempt(() => to(e.projectId), `Moved back to ${e.workspaceName} / ${e.projectName}`).then(reload) });
    await reload();
  };
  /** @param {import("../../lib/experiments.js").Action} a */
  const press = (a) => (a.sure ? setOpen(a.id) : run(a));
  const fitting = ACTIONS.filter((a) => offered(a, e));
  const changes = may("UPDATE_EXPERIMENT", e.workspaceId);
  const first = fitting.filter((a) => ["pause", "activate", "cancel"].includes(a.id));
  const sure = fitting.find((a) => a.id === open && a.sure);
  return html`
    ${first.map((a) => html`<${Button} icon=${a.icon} title=${a.sure ?? a.about} onClick=${() => press(a)}>${a.name}<//>`)}
    ${maySomewhere("CREATE_EXPERIMENT") && html`<${Button} icon="copy" title="Create an experiment with the same code and an edited configuration" onClick=${() => setOpen("fork")}>Fork<//>`}
    <${Menu} label="More actions" items=${[
      may("UPDATE_EXPERIMENT_METADATA", e.workspaceId) && { name: "Edit name and labels", act: () => setOpen("edit") },
      maySomewhere("CREATE_NSC") && { name: "Open TensorBoard", act: () => void attempt(() => tensorboard(e.id), `Starting TensorBoard for experiment ${e.id}`) },
      changes && !e.archived && { name: "Move to another project", act: () => setOpen("move") },
      changes && ended(e.state) && !e.unmanaged && { name: "Continue training", act: () => setOpen("continue") },
      ...fitting.filter((a) => !first.includes(a)).map((a) => ({ name: a.name, danger: a.danger, act: () => press(a) })),
    ]} />
    ${sure &&
    html`
      <${Ask} title=${`${sure.name} experiment ${e.id}?`} act=${sure.name} danger=${sure.danger} onClose=${close}
        onAct=${async () => {
          await command(sure.id, e.id);
          tell(`${sure.done} experiment ${e.id}`);
          if (sure.id === "delete") go("/experiments");
          else await reload();
        }}>
        <p class="soft">${sure.sure}</p>
      <//>
    `}
    ${open === "fork" && html`<${Fork} experiment=${e} onClose=${close} />`}
    ${open === "continue" && html`<${Continue} experiment=${e} onClose=${close} onDone=${reload} />`}
    ${open === "edit" && html`<${Edit} experiment=${e} onClose=${close} onDone=${reload} />`}
    ${open === "move" && html`<${MoveExperiments} title="Move to another project" of=${[e]} onMove=${move} onClose=${close} />`}
  `;
}

