// How curves are looked at: their axis, scale and smoothing, kept in the address so that a view can be sent.
import { ask, place } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { smoothed } from "./chart.js";

export const AXES = { batches: "batches", epochs: "epochs", time: "time", elapsed: "seconds" };

/** @typedef {{ axis: keyof AXES, log: boolean, weight: number, controls: any }} CurveChoice */

/** @returns {CurveChoice} */
export function useCurveChoice() {
  const { query } = place.value;
  const asked = query.get("axis") ?? "";
  const axis = asked in AXES ? /** @type {keyof AXES} */ (asked) : "batches";
  const log = query.has("log");
  const [weight, setWeight] = useState(0);
  const controls = html`
    <label class="row small soft"><input class="check" type="checkbox" checked=${log} onChange=${() => ask({ log: log ? "" : "1" })} />Log scale</label>
    <label class="row small soft">Smoothing<input type="range" min="0" max="0.95" step="0.05" value=${weight} onInput=${(/** @type {any} */ e) => setWeight(Number(e.target.value))} /></label>
    <select class="input inline" aria-label="Axis" value=${axis} onChange=${(/** @type {any} */ e) => ask({ axis: e.target.value })}>
      <option value="batches">by batches</option><option value="epochs">by epochs</option><option value="time">by time</option><option value="elapsed">by seconds of training</option>
    </select>
  `;
  return { axis, log, weight, controls };
}

/** @param {any} m a metric of a group */
export const keyOf = (m) => `${m.group}.${m.name}`;

/** @param {{ known: any[], chosen: any }} props */
export const MetricChoice = ({ known, chosen }) => html`
  <select class="input inline" aria-label="Metric" value=${keyOf(chosen)} onChange=${(/** @type {any} */ e) => ask({ metric: e.target.value })}>
    ${known.map((m) => html`<option value=${keyOf(m)}>${m.name} (${m.group})</option>`)}
  </select>
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
