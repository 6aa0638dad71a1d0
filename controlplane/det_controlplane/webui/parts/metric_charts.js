// Charts of metrics: what they show, kept in the address so that a view can be sent; the charts and their legend.
import { metric } from "../lib/format.js";
import { ask, place } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { Chart, smoothed } from "./chart.js";
import { isAlone, Swatch } from "./curve_look.js";
import { Check, Pick } from "./fields.js";
import { Menu } from "./overlay.js";

export const AXES = { batches: "batches", epochs: "epochs", time: "time", elapsed: "seconds" };
const NAMED_AXES = [["batches", "by batches"], ["epochs", "by epochs"], ["time", "by time"], ["elapsed", "by seconds of training"]];

/** @typedef {{ axis: keyof AXES, log: boolean, ignores: boolean, weight: number, controls: any }} CurveChoice */

/** Return how the axes of metrics are scaled, with the controls. */
export function useScaleChoice() {
  const { query } = place.value;
  const [log, ignores] = [query.has("log"), !query.has("outliers")];
  const controls = html`
    <${Check} label="Log scale" value=${log} onChange=${() => ask({ log: log ? "" : "1" })} />
    <${Check} label="Ignore outliers" value=${ignores} onChange=${() => ask({ outliers: ignores ? "1" : "" })} />
  `;
  return { log, ignores, controls };
}

/** @returns {CurveChoice} */
export function useCurveChoice() {
  const { query } = place.value;
  const asked = query.get("axis") ?? "";
  const axis = asked in AXES ? /** @type {keyof AXES} */ (asked) : "batches";
  const scale = useScaleChoice();
  const [weight, setWeight] = useState(0);
  const controls = html`
    ${scale.controls}
    <label class="row small soft">Smoothing<input type="range" min="0" max="0.95" step="0.05" value=${weight} onInput=${(/** @type {any} */ e) => setWeight(Number(e.target.value))} /></label>
    <${Pick} label="Axis" value=${axis} set=${(/** @type {string} */ to) => ask({ axis: to })} of=${NAMED_AXES} />
  `;
  return { ...scale, axis, weight, controls };
}

// JSON has no such numbers, so the API writes them as texts.
const NOT_FINITE = ["NaN", "Infinity", "-Infinity"];

/** Return the points of a curve, with null for a value that is not finite, and the last value. @param {any[]} points as the API tells them @param {string} name @param {CurveChoice} choice */
export function pointsOf(points, name, { axis, weight }) {
  const start = points.length ? Date.parse(points[0].time) / 1000 : 0;
  const at = {
    batches: (/** @type {any} */ p) => p.batches,
    epochs: (/** @type {any} */ p) => p.epoch,
    time: (/** @type {any} */ p) => Date.parse(p.time) / 1000,
    elapsed: (/** @type {any} */ p) => Date.parse(p.time) / 1000 - start,
  }[axis];
  const drawn = points.filter((p) => typeof at(p) === "number" && (typeof p.values[name] === "number" || NOT_FINITE.includes(p.values[name])));
  drawn.sort((a, b) => at(a) - at(b));
  const y = smoothed(drawn.map((p) => (typeof p.values[name] === "number" ? p.values[name] : null)), weight);
  return { x: drawn.map(at), y, last: y.at(-1) ?? drawn.at(-1)?.values[name] };
}

/** @typedef {{ key: string, name: string, groups: string[], title: string }} Plot a chart of one metric, as reported in one or more groups */

export const MOST_PLOTS = 24;
// Every report has these fields beside its metrics.
const COUNTERS = ["batches", "epochs", "end_time"];
const ALL = "all";

/** Tell whether a curve of a metric tells anything. @param {string} name */
export const isDrawn = (name) => !COUNTERS.includes(name);

/** Put the group in front to which the others are compared. @param {string} a @param {string} b */
export const compared = (a, b) => Number(b === "validation") - Number(a === "validation");

/** Return each possible chart: of a metric in each of its groups, and in all of them together. @param {any[]} known @returns {Plot[]} */
export function plotsOf(known) {
  return [...new Set(known.map((m) => m.name))].flatMap((name) => {
    const groups = known.filter((m) => m.name === name).map((m) => m.group).sort(compared);
    const single = groups.map((group) => ({ key: `${group}.${name}`, name, groups: [group], title: `${name} (${group})` }));
    return groups.length > 1 ? [...single, { key: `${ALL}.${name}`, name, groups, title: `${name} (${groups.join(" and ")})` }] : single;
  });
}

/** Find the charts of the address, else the one of the metric that a search compares. @param {any[]} known @param {string} searched @returns {Plot[]} */
export function chosenPlots(known, searched) {
  const asked = place.value.query.get("metric") ?? "";
  const plots = plotsOf(known);
  const first = (/** @type {Plot} */ p) => Number(p.name === searched);
  if (asked === ALL) return [...new Map(plots.map((p) => [p.name, p])).values()].sort((a, b) => first(b) - first(a));
  const one = plots.find((p) => p.key === asked);
  const several = one ? [one] : asked.split(",").flatMap((key) => plots.filter((p) => p.key === key));
  if (several.length) return several;
  return [plots.find((p) => p.key === `validation.${searched}`) ?? plots[0]];
}

/** @param {Plot[]} plots */
const show = (plots) => ask({ metric: plots.map((p) => p.key).join(",") });

/** @param {{ known: any[], chosen: Plot[] }} props */
export function MetricChoice({ known, chosen }) {
  const plots = plotsOf(known);
  const every = place.value.query.get("metric") === ALL && chosen.length > 1;
  const value = every ? ALL : chosen.map((p) => p.key).join(",");
  const several = !every && chosen.length > 1 ? [[value, `${chosen.length} metrics`]] : [];
  const all = plots.length > 1 ? [[ALL, "All metrics"]] : [];
  return html`<${Pick} label="Metric" value=${value} set=${(/** @type {string} */ metric) => ask({ metric })} of=${[...several, ...plots.map((p) => [p.key, p.title]), ...all]} />`;
}

/** A menu that adds charts and removes them. @param {{ known: any[], chosen: Plot[] }} props */
export function MetricMenu({ known, chosen }) {
  const plots = plotsOf(known);
  if (plots.length < 2) return null;
  const keys = chosen.map((p) => p.key);
  const toggle = (/** @type {Plot} */ plot) => show(keys.includes(plot.key) ? chosen.filter((p) => p.key !== plot.key) : [...chosen, plot]);
  return html`<${Menu} label="Charts" text="Charts" items=${plots.map((p) => ({ name: p.title, on: keys.includes(p.key), act: () => toggle(p) }))} />`;
}

/** @typedef {import("./chart.js").Curve} Curve */
/** @typedef {{ of: number, name: string, href: string, value: unknown }} Entry */

const SMALL_PX = 230;

/** Return what the curves of a trial in the groups of a chart have in common, and their names. @param {Plot} plot @param {string} group @param {string} name */
export const curveOf = (plot, group, name) => ({ name: plot.groups.length > 1 ? `${name} (${group})` : name, thin: group !== plot.groups[0] });

/** Return the groups that charts draw together. @param {Plot[]} plots */
export const groupsOf = (plots) => plots.find((p) => p.groups.length > 1)?.groups ?? [];

/** One large chart, or a grid of small ones. @param {{ charts: { plot: Plot, curves: Curve[] }[], choice: CurveChoice, onRange?: (range: import("./chart_range.js").Range | null) => void }} props */
export function MetricCharts({ charts, choice, onRange }) {
  const { axis, log, ignores } = choice;
  const of = (/** @type {{ plot: Plot }} */ { plot }) => ({ label: `${plot.name} by ${axis}`, x: AXES[axis], time: axis === "time", log, ignores });
  if (charts.length === 1) return html`<${Chart} curves=${charts[0].curves} ...${of(charts[0])} onRange=${onRange} />`;
  return html`
    <div class="columns">
      ${charts.slice(0, MOST_PLOTS).map(
        (chart) => html`
          <section key=${chart.plot.key}>
            <h3>${chart.plot.title}</h3>
            ${chart.curves.length ? html`<${Chart} curves=${chart.curves} ...${of(chart)} height=${SMALL_PX} />` : html`<p class="soft small">No data.</p>`}
          </section>
        `,
      )}
    </div>
    ${charts.length > MOST_PLOTS && html`<p class="soft small">Showing the first ${MOST_PLOTS} of ${charts.length} metrics.</p>`}
  `;
}

/** Name the lines of groups that a chart draws together. @param {string[]} groups */
export const linesNote = (groups) => (groups.length > 1 ? `Thick lines: ${groups[0]}. Thin lines: ${groups.slice(1).join(", ")}.` : "");

/** Names of trials in the order of a value. @param {{ by: string, entries: Entry[], groups: string[], children?: any }} props `groups` that the charts draw together */
export const Legend = ({ by, entries, groups, children }) => html`
  <p class="faint small legend-order">${by} ${linesNote(groups)}</p>
  <ul class="legend" aria-label="Chart legend">
    ${entries.map((e) => html`<li key=${e.of}><${Swatch} of=${e.of} alone=${isAlone(entries.map((entry) => entry.of))} /><a href=${e.href}>${e.name}</a><span class="faint number">${metric(e.value)}</span></li>`)}
    ${children}
  </ul>
`;
