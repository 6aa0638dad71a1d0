// Measurements of a trial's machines: a chart for each quantity, a curve for each agent or GPU.
import { first, lines } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { html, useMemo } from "../lib/view.js";
import { Empty, Loaded, Panel } from "../parts/basic.js";
import { Chart } from "../parts/chart.js";
import { useScaleChoice } from "../parts/metric_charts.js";

const MOST_POINTS = 1_000;

/** @param {{ trial: any }} props */
export function Profiler({ trial }) {
  const scale = useScaleChoice();
  const path = `/api/v1/trials/${trial.id}/profiler`;
  const found = useLive(async (signal) => (await first(`${path}/available_series`, {}, { signal }))?.labels ?? [], [path, trial.state], 0, trial.revision);
  return html`
    <${Loaded} of=${found}>
      ${(/** @type {any[]} */ labels) => {
        const names = [...new Set(labels.map((l) => l.name))];
        if (!names.length) {
          return html`<div class="panel"><${Empty} title="No profiling data"><p>Set <code>profiling: {enabled: true}</code> in the configuration to record it.</p><//></div>`;
        }
        return html`
          <div class="stack">
            <div class="row">${scale.controls}</div>
            <div class="columns charts">${names.map((name) => html`<${Series} key=${name} path=${path} name=${name} trial=${trial} scale=${scale} />`)}</div>
          </div>
        `;
      }}
    <//>
  `;
}

/** @param {{ path: string, name: string, trial: any, scale: import("../parts/chart_scale.js").Scale }} props */
function Series({ path, name, trial, scale }) {
  const told = useLive(
    async (signal) => {
      const parts = [];
      for await (const { batch } of lines(`${path}/metrics`, { "labels.name": name }, { signal })) parts.push(batch);
      return parts;
    },
    [path, name, trial.state],
    0,
    trial.revision,
  );
  const curves = useMemo(() => curvesOf(told.data ?? []), [told.data]);
  return html`<${Panel} title=${name}><${Loaded} of=${told}>${() => html`<${Chart} curves=${curves} label=${name} time log=${scale.log} ignores=${scale.ignores} height=${230} />`}<//><//>`;
}

/** Join the parts of each series; of a long one, draw points that lie evenly. @param {any[]} parts @returns {import("../parts/chart.js").Curve[]} */
function curvesOf(parts) {
  const found = new Map();
  for (const { labels, timestamps, values } of parts) {
    const of = [labels.agentId, labels.gpuUuid].filter(Boolean).join(" · ") || labels.name;
    if (!found.has(of)) found.set(of, { name: of, x: [], y: [] });
    const curve = found.get(of);
    for (const [i, time] of timestamps.entries()) {
      curve.x.push(Date.parse(time) / 1000);
      curve.y.push(values[i]);
    }
  }
  return [...found.values()].map(({ name, x, y }) => {
    const step = Math.ceil(x.length / MOST_POINTS);
    const kept = (/** @type {number[]} */ of) => of.filter((_, i) => i % step === 0);
    return { name, x: kept(x), y: kept(y) };
  });
}
