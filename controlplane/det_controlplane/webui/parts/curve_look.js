// The look of curves. A trial has the same colour and dashes on every page, however it ranks.
import { html } from "../lib/view.js";

const COLOURS = 24;
// The first 24 trials have solid lines of different colours; the next 24 have dashes.
const DASHES = [undefined, [7, 4], [2, 3]];
const LINES = ["solid", "dashed", "dotted"];

/** Return the token of a curve's colour. @param {number} of the id of a trial, or another number */
export const colourOf = (of) => `--curve-${(of % COLOURS) + 1}`;

/** @param {number} of */
const roundOf = (of) => Math.floor(of / COLOURS) % DASHES.length;

/** Return the dashes of each curve: its lengths of dashes and gaps. A single trial needs none. @param {(number | undefined)[]} trials @returns {(number[] | undefined)[]} */
export const dashesOf = (trials) => trials.map((of, i) => (isAlone(trials) ? undefined : DASHES[roundOf(of ?? i)]));

/** Tell whether all curves belong to one trial, which its colour distinguishes. @param {(number | undefined)[]} trials */
export const isAlone = (trials) => new Set(trials).size === 1;

/** The sign of a curve in a legend. @param {{ of: number, thin?: boolean, alone?: boolean }} props */
export const Swatch = ({ of, thin = false, alone = false }) => html`<span class=${`swatch ${LINES[alone ? 0 : roundOf(of)]} ${thin ? "thin" : ""}`} style=${{ color: `var(${colourOf(of)})` }} />`;
