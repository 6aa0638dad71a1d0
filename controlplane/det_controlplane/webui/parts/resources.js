// The resources that tasks use over time, as the agents measure them.
import { get } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { ask, place } from "../lib/router.js";
import { html, useMemo } from "../lib/view.js";
import { Empty, Loaded } from "./basic.js";
import { Pick } from "./fields.js";
import { useScaleChoice } from "./metric_charts.js";
import { SeriesChart } from "./series.js";

const LIVE_MS = 10_000;
const GIB = 2 ** 30;
const MIB = 2 ** 20;
/** The charts in their order: the title, and whether values are bytes or bytes per second. @type {Record<string, [string, "" | "bytes" | "rate"]>} */
const CHARTS = {
  cpu: ["CPU cores", ""],
  memory: ["Memory", "bytes"],
  gpu_util: ["GPU utilization, %", ""],
  gpu_memory: ["GPU memory", "bytes"],
  disk_read: ["Disk read", "rate"],
  disk_write: ["Disk write", "rate"],
  net_received: ["Network received", "rate"],
  net_sent: ["Network sent", "rate"],
};

/** Return the title of a chart with its unit, and the divisor of its values. @param {string} name @param {Told[]} series @returns {[string, number]} */
function titleOf(name, series) {
  const [title, kind] = CHARTS[name];
  if (kind === "rate") return [`${title}, MiB/s`, MIB];
  if (kind !== "bytes") return [title, 1];
  const most = Math.max(0, ...series.flatMap((s) => s.values));
  return most < GIB ? [`${title}, MiB`, MIB] : [`${title}, GiB`, GIB];
}
/** @type {[string, string][]} seconds, and their name */
const SPANS = [["3600", "Last hour"], ["86400", "Last day"], ["", "All"]];

/** @typedef {{ name: string, agentId: string, slotId: number | null, limit: number | null, timestamps: string[], values: number[] }} Told */

/** @param {{ tasks: string[], live: boolean }} props ids of tasks, which are the runs of one thing */
export function Resources({ tasks, live }) {
  const scale = useScaleChoice();
  const span = place.value.query.get("span") ?? "";
  const found = useLive(
    async (signal) => {
      const startTime = Number(span) ? new Date(Date.now() - Number(span) * 1000).toISOString() : undefined;
      const told = await Promise.all(tasks.map((id) => get(`/api/v1/tasks/${encodeURIComponent(id)}/resources`, { startTime }, { signal })));
      return told.flatMap((of) => of.series);
    },
    [tasks.join(), span],
    live ? LIVE_MS : 0,
  );
  return html`
    <div class="stack">
      <div class="row">
        <${Pick} label="Time span" value=${span} set=${(/** @type {string} */ to) => ask({ span: to })} of=${SPANS} />
        ${scale.controls}
      </div>
      <${Loaded} of=${found}>
        ${(/** @type {Told[]} */ series) => {
          const shown = Object.keys(CHARTS).filter((name) => series.some((s) => s.name === name));
          if (!shown.length) return html`<div class="panel"><${NoSamples} live=${live} span=${span} /></div>`;
          return html`<div class="columns charts">${shown.map((name) => html`<${ResourceChart} key=${name} name=${name} series=${series} scale=${scale} />`)}</div>`;
        }}
      <//>
    </div>
  `;
}

/** @param {{ live: boolean, span: string }} props */
const NoSamples = ({ live, span }) => html`
  <${Empty} title=${span ? "No measurements in this time span" : "No measurements"}>
    <p>${live ? "Charts appear about 15 seconds after the start." : "Tasks of a few seconds end before the first measurement. Old measurements are deleted."}</p>
  <//>
`;

/** @param {{ name: string, series: Told[], scale: import("./chart_scale.js").Scale }} props */
function ResourceChart({ name, series, scale }) {
  const own = series.filter((s) => s.name === name);
  const [title, unit] = titleOf(name, own);
  const data = useMemo(
    () => own.map((s) => ({ name: s.slotId === null ? s.agentId : `${s.agentId} · GPU ${s.slotId}`, timestamps: s.timestamps, values: s.values.map((v) => v / unit) })),
    [series, unit],
  );
  const limit = Math.max(0, ...own.map((s) => s.limit ?? 0)) / unit;
  const note = limit && name !== "gpu_util" ? `of ${Number(limit.toPrecision(3))}` : "";
  return html`<${SeriesChart} title=${title} note=${note} of=${{ data, error: undefined, reload: async () => {} }} scale=${scale} />`;
}
