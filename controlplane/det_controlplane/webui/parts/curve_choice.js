// How curves are looked at: their axis, scale and smoothing, kept in the address so that a view can be sent.
import { ask, place } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { smoothed } from "./chart.js";
import { Check, Pick } from "./fields.js";

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

// Every report has these fields beside its metrics.
const COUNTERS = ["batches", "epochs", "end_time"];

/** Tell whether a curve of a metric tells anything. @param {string} name */
export const isDrawn = (name) => !COUNTERS.includes(name);

/** @param {any} m a metric of a group */
export const keyOf = (m) => `${m.group}.${m.name}`;

/** @param {{ known: any[], chosen: any }} props */
export const MetricChoice = ({ known, chosen }) => html`
  <${Pick} label="Metric" value=${keyOf(chosen)} set=${(/** @type {string} */ metric) => ask({ metric })} of=${known.map((m) => [keyOf(m), `${m.name} (${m.group})`])} />
`;

/** Find the metric of the address, else the one that a search looks at. @param {any[]} known @param {string} searched */
export function chosenMetric(known, searched) {
  const asked = place.value.query.get("metric");
  return known.find((m) => keyOf(m) === asked) ?? known.find((m) => m.name === searched && m.group === "validation") ?? known[0];
}

/** @param {any[]} points as the API tells them @param {string} name @param {CurveChoice} choice */
export function pointsOf(points, name, { axis, weight }) {
  const start = points.length ? Date.parse(points[0].time) / 1000 : 0;
  const at = {
    batches: (/** @type {any} */ p) => p.batches,
    epochs: (/** @type {any} */ p) => p.epoch,
    time: (/** @type {any} */ p) => Date.parse(p.time) / 1000,
    elapsed: (/** @type {any} */ p) => Date.parse(p.time) / 1000 - start,
  }[axis];
  const drawn = points.filter((p) => typeof at(p) === "number" && typeof p.values[name] === "number");
  drawn.sort((a, b) => at(a) - at(b));
  return { x: drawn.map(at), y: smoothed(drawn.map((p) => p.values[name]), weight) };
}
