// A chart of values over time, of several machines or GPUs.
import { html, useMemo } from "../lib/view.js";
import { Loaded, Panel } from "./basic.js";
import { Chart } from "./chart.js";

/** @typedef {{ name: string, timestamps: string[], values: number[] }} Series values of a machine or GPU; a long series comes in parts */

const MOST_POINTS = 1_000;

/**
 * @param {{ title: string, note?: string, of: import("../lib/live.js").Live<Series[]>, scale: import("./chart_scale.js").Scale }} props
 */
export function SeriesChart({ title, note, of, scale }) {
  const curves = useMemo(() => curvesOf(of.data ?? []), [of.data]);
  return html`<${Panel} title=${title} actions=${note && html`<span class="faint small">${note}</span>`}><${Loaded} of=${of}>${() => html`<${Chart} curves=${curves} label=${title} time log=${scale.log} ignores=${scale.ignores} height=${230} />`}<//><//>`;
}

/** Join the parts of each series; of a long one, draw points that lie evenly. @param {Series[]} parts @returns {import("./chart.js").Curve[]} */
function curvesOf(parts) {
  /** @type {Map<string, { x: number[], y: number[] }>} */
  const found = new Map();
  for (const { name, timestamps, values } of parts) {
    const curve = found.get(name) ?? { x: [], y: [] };
    found.set(name, curve);
    for (const [i, time] of timestamps.entries()) {
      curve.x.push(Date.parse(time) / 1000);
      curve.y.push(values[i]);
    }
  }
  return [...found].map(([name, { x, y }]) => {
    const step = Math.ceil(x.length / MOST_POINTS);
    const kept = (/** @type {number[]} */ of) => of.filter((_, i) => i % step === 0);
    return { name, x: kept(x), y: kept(y) };
  });
}
