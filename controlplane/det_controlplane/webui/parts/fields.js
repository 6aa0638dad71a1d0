// Fields of forms: a label, an input, and a word on it.
import { html } from "../lib/view.js";
import { Field } from "./basic.js";

/** @typedef {{ label: string, hint?: any, value: string, set: (value: string) => void, [more: string]: any }} Given */

/** @param {Given} props */
export const Line = ({ label, hint, value, set, ...more }) => html`
  <${Field} label=${label} hint=${hint}><input class="input" value=${value} onInput=${(/** @type {any} */ e) => set(e.target.value)} ...${more} /><//>
`;

/** @param {Given & { of: [string, string][] }} props values with their names */
export const Choice = ({ label, hint, value, set, of, ...more }) => html`
  <${Field} label=${label} hint=${hint}>
    <select class="input" value=${value} onChange=${(/** @type {any} */ e) => set(e.target.value)} ...${more}>
      ${of.map(([key, name]) => html`<option value=${key} selected=${key === value}>${name}</option>`)}
    </select>
  <//>
`;

/** @param {{ label: string, hint?: any, value: boolean, set: (value: boolean) => void }} props */
export const Tick = ({ label, hint, value, set }) => html`
  <label class="tick">
    <input class="check" type="checkbox" checked=${value} onChange=${(/** @type {any} */ e) => set(e.target.checked)} />
    <span>${label}${hint && html`<small class="hint">${hint}</small>`}</span>
  </label>
`;

/** A box beside its words, as heads of panels have it. @param {{ label: string, value: boolean, onChange: () => void }} props */
export const Check = ({ label, value, onChange }) => html`<label class="row small soft"><input class="check" type="checkbox" checked=${value} onChange=${onChange} />${label}</label>`;

/** A choice without words beside it. @param {{ label: string, value: string, set: (value: string) => void, of: [string, string][] }} props values with their names */
export const Pick = ({ label, value, set, of }) => html`
  <select class="input inline" aria-label=${label} value=${value} onChange=${(/** @type {any} */ e) => set(e.target.value)}>
    ${of.map(([key, name]) => html`<option value=${key} selected=${key === value}>${name}</option>`)}
  </select>
`;

/** @param {Given & { bad?: boolean, short?: boolean }} props */
export const Code = ({ label, hint, value, set, bad, short, ...more }) => html`
  <${Field} label=${label} hint=${hint}>
    <textarea class=${`input code ${short ? "short" : ""}`} spellcheck=${false} aria-invalid=${bad ? "true" : "false"} value=${value}
      onInput=${(/** @type {any} */ e) => set(e.target.value)} ...${more} />
  <//>
`;
