// One trial: its curves, its work step by step, and the machines it ran on.
import { first, get, lines, post } from "../lib/api.js";
import { duration, ended, metric, moment, money } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { usePaged } from "../lib/paged.js";
import { REST_MS, whenChanged } from "../lib/revision.js";
import { may } from "../lib/rights.js";
import { link } from "../lib/router.js";
import { flat, shownState } from "../lib/trials.js";
import { html, useMemo, useRef, useState } from "../lib/view.js";
import { inPage } from "../lib/why.js";
import { Button, Empty, FailureDetails, Figures, Head, Loaded, Pairs, Panel, State, Tabs } from "../parts/basic.js";
import { Chart } from "../parts/chart.js";
import { Listing } from "../parts/listing.js";
import { Logs } from "../parts/logs.js";
import { AXES, compared, isDrawn, linesNote, pointsOf, useCurveChoice, useScaleChoice } from "../parts/metric_charts.js";
import { Ask } from "../parts/overlay.js";
import { Resources } from "../parts/resources.js";
import { SeriesChart } from "../parts/series.js";
import { Table } from "../parts/table.js";
import { Span } from "../parts/time.js";
import { Checkpoints } from "./experiment/checkpoints.js";
import { Fork } from "./experiment/dialogs.js";

const LIVE_MS = 2_500;
const GROUPS = { avg_metrics: "training", validation_metrics: "validation" };

/** @type {[string, string, (props: any) => any][]} */
const TABS = [
  ["metrics", "Metrics", (p) => html`<${Metrics} ...${p} />`],
  ["workloads", "Workloads", (p) => html`<${Workloads} ...${p} />`],
  ["hyperparameters", "Hyperparameters", ({ trial }) => html`<${Panel} title="Hyperparameters"><${Pairs} of=${Object.entries(flat(trial.hparams)).map(([name, value]) => [name, html`<code>${JSON.stringify(value)}</code>`])} /><//>`],
  ["checkpoints", "Checkpoints", ({ trial, experiment }) => html`<${Checkpoints} trial=${trial} experiment=${experiment} />`],
  ["logs", "Logs", ({ trial }) => html`<${Logs} path=${`/api/v1/trials/${trial.id}/logs`} live=${!ended(trial.state)} name=${`trial-${trial.id}`} />`],
  ["resources", "Resources", ({ trial }) => html`<${Resources} tasks=${trial.taskIds} live=${!ended(trial.state)} />`],
  ["profiler", "Profiler", ({ trial }) => html`<${Profiler} trial=${trial} />`],
  ["allocations", "Allocations", (p) => html`<${Allocations} ...${p} />`],
];

/** @param {{ id: string, tab?: string }} props */
export function Page({ id, tab = "metrics" }) {
  const of = useRef(/** @type {number | undefined} */ (undefined));
  const fetched = useMemo(() => {
    of.current = undefined;
    return whenChanged((signal) => get(`/api/v1/trials/${encodeURIComponent(id)}`, {}, { signal }));
  }, [id]);
  const found = useLive(
    async (signal) => {
      const { trial, revision } = await fetched(of.current, signal);
      of.current = trial.experimentId;
      return { ...trial, revision };
    },
    [id],
    (trial) => (ended(trial.state) ? 0 : LIVE_MS),
  );
  return html`<${Loaded} of=${found} title=${`Trial ${id}`} list=${["/experiments", "All experiments"]}>${(/** @type {any} */ trial) => html`<${Shown} trial=${trial} tab=${tab} reload=${found.reload} />`}<//>`;
}

/** @param {{ trial: any, tab: string, reload: () => Promise<void> }} props */
function Shown({ trial, tab, reload }) {
  const [sure, setSure] = useState(false);
  const [forking, setForking] = useState(false);
  const active = !ended(trial.state);
  const told = useLive(
    async (signal) => {
      const [why, cost, experiment, start] = await Promise.all([
        get(`/api/v1/why/trial/${trial.id}`, {}, { signal }).catch(() => ({ reasons: [] })),
        get("/api/v1/costs/trials", { ids: trial.id }, { signal }).catch(() => ({ costs: [] })),
        get(`/api/v1/experiments/${trial.experimentId}`, {}, { signal }),
        get(`/api/v1/trials/${trial.id}/start`, {}, { signal }).catch(() => ({ start: null })),
      ]);
      return { reasons: why.reasons, cost: cost.costs[0], experiment: experiment.experiment, start: start.start };
    },
    [trial.id, trial.state],
    active ? REST_MS : 0,
    trial.revision,
  );
  const [, , shown] = TABS.find(([key]) => key === tab) ?? TABS[0];
  const experiment = told.data?.experiment;
  const reason = inPage(told.data?.reasons[0]?.sentence ?? "", " on its experiment");
  const failure = told.data?.reasons.find((/** @type {import("../lib/why.js").Reason} */ r) => r.cause);
  const text = html`of <a href=${link(`/experiments/${trial.experimentId}`)}>${experiment?.name ?? "experiment"} ${trial.experimentId}</a>`;
  return html`
    <${Head} title=${`Trial ${trial.id}`} text=${text} beside=${html`<${State} state=${shownState(trial)} />`}>
      ${experiment && !experiment.unmanaged && may("CREATE_EXPERIMENT", experiment.workspaceId) && html`<${Button} icon="copy" onClick=${() => setForking(true)}>Retrain<//>`}
      ${active && experiment && may("UPDATE_EXPERIMENT", experiment.workspaceId) && html`<${Button} kind="danger" icon="close" onClick=${() => setSure(true)}>Kill<//>`}
    <//>
    <div class="stack">
      ${tells(trial, reason) && html`<div key="notice" class=${`notice ${{ STATE_ERROR: "red", STATE_COMPLETED: "quiet" }[/** @type {string} */ (trial.state)] ?? ""}`} role="status"><p>${failure?.cause ?? `The trial ${reason}`}.</p><${FailureDetails} of=${failure} />${trial.state === "STATE_ERROR" && tab !== "logs" && html`<${Button} href=${link(`/trials/${trial.id}/logs`)}>View logs<//>`}</div>`}
      <${Figures} of=${[
        [experiment?.searcherMetric || "Searcher metric", metric(trial.searcherMetricValue), "best value"],
        ["Batches", metric(trial.totalBatchesProcessed)],
        ["Duration", trial.wallClockTime ? duration(trial.wallClockTime) : html`<${Span} from=${trial.startTime} to=${trial.endTime} />`, `since ${moment(trial.startTime)}`],
        ["Restarts", trial.restarts, trial.logPolicyMatched ? `log policy ${trial.logPolicyMatched}` : undefined],
        ["Cost", money(told.data?.cost?.costUsd)],
        ...startFigures(told.data?.start),
      ]} />
      <div>
        <${Tabs} label="Parts of the trial" tabs=${TABS.map(([key, name, part]) => ({ name, href: link(`/trials/${trial.id}/${key}`), chosen: part === shown }))} />
        ${shown({ trial, experiment })}
      </div>
    </div>
    ${forking && experiment && html`<${Fork} experiment=${experiment} trial=${trial} onClose=${() => setForking(false)} />`}
    ${sure &&
    html`
      <${Ask} title=${`Kill trial ${trial.id}?`} act="Kill" danger onClose=${() => setSure(false)}
        onAct=${async () => {
          await post(`/api/v1/trials/${trial.id}/kill`);
          await reload();
        }}>
        <p class="soft">The trial stops immediately. The search continues without it.</p>
      <//>
    `}
  `;
}

/** Return how long the newest start took, with the seconds and costs of its longest phases. @param {any} start @returns {[string, string, string][]} */
function startFigures(start) {
  if (!start?.phases.length) return [];
  const long = start.phases.filter((/** @type {any} */ p) => p.seconds >= 1);
  const total = start.phases.reduce((/** @type {number} */ sum, /** @type {any} */ p) => sum + p.seconds, 0);
  return [["Start", duration(total), long.map((/** @type {any} */ p) => `${p.name} ${duration(p.seconds)}${p.usd ? ` ${money(p.usd)}` : ""}`).join(", ")]];
}

/** Tell whether a reason says more than the state does. @param {any} trial @param {string} reason */
const tells = (trial, reason) => reason && trial.state !== "STATE_CANCELED" && !reason.startsWith("completed");

/** @param {any} trial @returns {[string, string][]} groups and names of its metrics */
function metricsOf(trial) {
  return Object.entries(trial.summaryMetrics ?? {}).flatMap(([group, names]) => Object.keys(/** @type {any} */ (names)).map((name) => /** @type {[string, string]} */ ([GROUPS[/** @type {keyof GROUPS} */ (group)] ?? group, name])));
}

/** @param {{ trial: any }} props */
function Metrics({ trial }) {
  const choice = useCurveChoice();
  const known = metricsOf(trial).filter(([, name]) => isDrawn(name));
  const names = [...new Set(known.map(([, name]) => name))];
  if (!names.length) return html`<div class="panel"><${Empty} title="No metrics yet"><p>Charts appear when the trial reports its first metric.</p><//></div>`;
  return html`
    <div class="stack">
      <div class="row">${choice.controls}</div>
      <div class="columns charts">${names.map((name) => html`<${MetricChart} key=${name} trial=${trial} name=${name} choice=${choice} groups=${known.filter(([, n]) => n === name).map(([g]) => g).sort(compared)} />`)}</div>
    </div>
  `;
}

/** @param {{ trial: any, name: string, groups: string[], choice: import("../parts/metric_charts.js").CurveChoice }} props */
function MetricChart({ trial, name, groups, choice }) {
  const { axis, log, ignores, weight } = choice;
  const told = useLive(
    (signal) =>
      Promise.all(
        groups.map(async (group) => {
          const found = await get("/api/v1/trials/time-series", { trialIds: trial.id, metricNames: name, group, maxDatapoints: 800 }, { signal });
          return { group, points: found.trials[0]?.metrics.flatMap((/** @type {any} */ m) => m.data) ?? [] };
        }),
      ),
    [trial.id, trial.state, name, groups.join()],
    0,
    trial.revision,
  );
  const curves = useMemo(
    () => (told.data ?? []).map(({ group, points }) => ({ name: `${name} (${group})`, of: trial.id, thin: group !== groups[0], ...pointsOf(points, name, choice) })),
    [told.data, axis, weight],
  );
  return html`<${Panel} title=${name}><${Loaded} of=${told}>${() => html`<${Chart} curves=${curves} label=${name} x=${AXES[axis]} time=${axis === "time"} log=${log} ignores=${ignores} height=${230} />${groups.length > 1 && html`<p class="faint small">${linesNote(groups)}</p>`}`}<//><//>`;
}

const WORKLOADS = { training: "Training", validation: "Validation", checkpoint: "Checkpoint" };

/** Return what a workload is, beside what it says. @param {any} w */
function kindly(w) {
  const key = /** @type {keyof WORKLOADS} */ (Object.keys(w)[0]);
  return { ...w[key], kind: WORKLOADS[key] };
}

/** @param {{ trial: any }} props */
function Workloads({ trial }) {
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get(`/api/v1/trials/${trial.id}/workloads`, { offset, limit, orderBy: "ORDER_BY_DESC" }, { signal });
      return { rows: told.workloads.map(kindly), total: told.pagination.total };
    },
    [trial.id, trial.state],
    { every: 0, mark: trial.revision },
  );
  const columns = [
    { name: "Batches", right: true, cell: (/** @type {any} */ w) => metric(w.totalBatches) },
    { name: "Kind", cell: (/** @type {any} */ w) => w.kind },
    { name: "Metrics", wrap: true, cell: (/** @type {any} */ w) => Object.entries(w.metrics?.avgMetrics ?? {}).filter(([n]) => n !== "batches").map(([n, v]) => html`<span class="nowrap">${n} <strong class="number">${metric(v)}</strong></span>  `) },
    { name: "Ended", right: true, cell: (/** @type {any} */ w) => moment(w.endTime) },
  ];
  return html`
    <${Panel} flush>
      <${Listing} of=${found} label="Workloads" columns=${columns} id=${(/** @type {any} */ w) => `${w.kind} ${w.uuid ?? w.totalBatches} ${w.endTime}`}
        empty=${html`<${Empty} title="No workloads yet"><p>Training steps, validations and checkpoints are listed here.</p><//>`} />
    <//>
  `;
}

/** @param {string} id of a task @param {AbortSignal} signal */
async function runsOf(id, signal) {
  const name = encodeURIComponent(id);
  const [{ task }, { allocations }] = await Promise.all([
    get(`/api/v1/tasks/${name}`, {}, { signal }),
    get(`/api/v1/costs/tasks/${name}/allocations`, {}, { signal }).catch(() => ({ allocations: [] })),
  ]);
  const costs = new Map(allocations.map((/** @type {any} */ a) => [a.allocationId, a]));
  return task.allocations.map((/** @type {any} */ a) => ({ ...costs.get(a.allocationId), ...a }));
}

/** @param {{ of: any }} props an allocation */
function Machines({ of }) {
  const machines = of.machines ?? of.agentIds.map((/** @type {string} */ id) => ({ agentId: id }));
  if (!machines.length) return html`<span class="faint">none yet</span>`;
  return html`
    <ul>
      ${machines.map(
        (/** @type {any} */ m) => html`
          <li>${machines.length > 1 && html`<span class="faint number">rank ${m.rank} </span>`}${m.agentId}
            ${m.machineType && html` <span class="soft small">${m.machineType} ${m.capacity}, ${m.provider} ${m.zone}, ${money(m.priceUsdHour)} / h</span>`}</li>
        `,
      )}
    </ul>
  `;
}

/** @param {{ trial: any }} props */
function Allocations({ trial }) {
  const found = useLive(async (signal) => (await Promise.all(trial.taskIds.map((/** @type {string} */ id) => runsOf(id, signal)))).flat(), [trial.id, trial.state], 0, trial.revision);
  const columns = [
    { name: "Run", right: true, cell: (/** @type {any} */ a) => a.allocationId.split(".").pop() },
    { name: "State", cell: (/** @type {any} */ a) => html`<${State} state=${a.state} />` },
    { name: "Slots", right: true, cell: (/** @type {any} */ a) => (a.maxSlots ? `${a.slots} of ${a.maxSlots}` : a.slots) },
    { name: "Machines", wrap: true, cell: (/** @type {any} */ a) => html`<${Machines} of=${a} />` },
    { name: "Started", right: true, cell: (/** @type {any} */ a) => moment(a.startTime) },
    { name: "Duration", right: true, cell: (/** @type {any} */ a) => html`<${Span} from=${a.startTime} to=${a.endTime} />` },
    { name: "Cost", right: true, cell: (/** @type {any} */ a) => money(a.costUsd) },
    { name: "Exit reason", wrap: true, cell: (/** @type {any} */ a) => html`<span class="soft">${a.exitReason ?? ""}</span>` },
  ];
  return html`
    <${Panel} flush>
      <${Loaded} of=${found}>
        ${(/** @type {any[]} */ rows) =>
          rows.length
            ? html`<${Table} label="Allocations" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} id=${(/** @type {any} */ a) => a.allocationId} />`
            : html`<${Empty} title="No runs yet" />`}
      <//>
    <//>
  `;
}

/** @param {{ trial: any }} props */
function Profiler({ trial }) {
  const scale = useScaleChoice();
  const path = `/api/v1/trials/${trial.id}/profiler`;
  const found = useLive(async (signal) => (await first(`${path}/available_series`, {}, { signal }))?.labels ?? [], [path, trial.state], 0, trial.revision);
  return html`
    <${Loaded} of=${found}>
      ${(/** @type {any[]} */ labels) => {
        const names = [...new Set(labels.map((l) => l.name))];
        if (!names.length) {
          return html`<div class="panel"><${Empty} title="No profiling data"><p>Set <code>profiling: {enabled: true}</code> in the configuration to record it. “Resources” shows what the agents measure.</p><//></div>`;
        }
        return html`
          <div class="stack">
            <div class="row">${scale.controls}</div>
            <div class="columns charts">${names.map((name) => html`<${ProfilerSeries} key=${name} path=${path} name=${name} trial=${trial} scale=${scale} />`)}</div>
          </div>
        `;
      }}
    <//>
  `;
}

/** @param {{ path: string, name: string, trial: any, scale: import("../parts/chart_scale.js").Scale }} props */
function ProfilerSeries({ path, name, trial, scale }) {
  const told = useLive(
    async (signal) => {
      /** @type {import("../parts/series.js").Series[]} */
      const parts = [];
      for await (const { batch } of lines(`${path}/metrics`, { "labels.name": name }, { signal })) {
        const { agentId, gpuUuid } = batch.labels;
        parts.push({ name: [agentId, gpuUuid].filter(Boolean).join(" · ") || name, timestamps: batch.timestamps, values: batch.values });
      }
      return parts;
    },
    [path, name, trial.state],
    0,
    trial.revision,
  );
  return html`<${SeriesChart} title=${name} of=${told} scale=${scale} />`;
}
