// The look of curves. A trial has the same colour and dashes on every page, however it ranks.
import { html } from "../lib/view.js";

const COLOURS = 12;
// Twelve trials with successive numbers have different colours; the next twelve have dashes.
const DASHES = [undefined, [7, 4], [2, 3]];
const LINES = ["solid", "dashed", "dotted"];

/** Return the token of a curve's colour. @param {number} of the id of a trial, or another number */
export const colourOf = (of) => `--curve-${(of % COLOURS) + 1}`;

/** @param {number} of */
const roundOf = (of) => Math.floor(of / COLOURS) % DASHES.length;

/** Return the lengths of a curve's dashes and gaps. @param {number} of */
export const dashOf = (of) => DASHES[roundOf(of)];

/** The sign of a curve in a legend. @param {{ of: number, thin?: boolean }} props */
export const Swatch = ({ of, thin = false }) => html`<span class=${`swatch ${LINES[roundOf(of)]} ${thin ? "thin" : ""}`} style=${{ color: `var(${colourOf(of)})` }} />`;
