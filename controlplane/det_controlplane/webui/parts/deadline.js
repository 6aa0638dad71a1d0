// The deadline of an experiment: its time, the outlook, and the chosen machines.
import { moment } from "../lib/format.js";
import { html } from "../lib/view.js";

/** @type {Record<string, string>} */
const STATES = { ON_TRACK: "on track", LAST_CHANCE: "last chance", IN_DANGER: "in danger", MISSED: "missed", MET: "met" };
/** @type {Record<string, string>} */
const CHOICES = { WAIT: "waits for a spot machine", SPOT: "spot machines", ON_DEMAND: "machines on demand" };
const BAD = ["IN_DANGER", "MISSED"];

/** @param {any} deadline */
function inTime({ state, probability }) {
  const name = STATES[state] ?? state;
  return probability === null ? name : `${Math.round(probability * 100)} %, ${name}`;
}

/** @param {{ of: any }} props */
export const DeadlineTime = ({ of }) => html`
  <span title=${of.reason || undefined}>${moment(of.time)} <span class=${BAD.includes(of.state) ? "bad" : "soft"}>${inTime(of)}</span></span>
`;

/** Return the figure of a deadline for a summary. @param {any} deadline @returns {[string, any, any]} */
export function deadlineFigure(deadline) {
  const parts = [deadline.predictedEnd && `predicted end ${moment(deadline.predictedEnd)}`, CHOICES[deadline.choice]];
  const note = html`<span class=${BAD.includes(deadline.state) ? "bad" : undefined}>${[inTime(deadline), ...parts].filter(Boolean).join("; ")}</span>`;
  return ["Deadline", moment(deadline.time), note];
}
