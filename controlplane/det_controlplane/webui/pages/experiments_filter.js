// Conditions on any column of the table of experiments; they live in the address, so a view can be kept and sent.
import { ask } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { Field, Icon } from "../parts/basic.js";
import { Ask } from "../parts/overlay.js";

/** @typedef {{ column: string, location: string, type: string, operator: string, value: string }} Condition */

/** @type {[string, string, string[]][]} operator, words, types of columns */
const OPERATORS = [
  ["=", "is", ["TEXT", "NUMBER"]],
  ["!=", "is not", ["TEXT", "NUMBER"]],
  ["contains", "contains", ["TEXT", "ARRAY"]],
  ["notContains", "does not contain", ["TEXT", "ARRAY"]],
  ["<", "is less than", ["NUMBER", "DATE"]],
  [">", "is more than", ["NUMBER", "DATE"]],
  ["isEmpty", "is empty", ["TEXT", "NUMBER", "DATE"]],
  ["notEmpty", "is not empty", ["TEXT", "NUMBER", "DATE"]],
];
const wordsOf = (/** @type {string} */ operator) => OPERATORS.find(([o]) => o === operator)?.[1] ?? operator;

/** @param {URLSearchParams} query @returns {Condition[]} */
export function conditions(query) {
  try {
    const found = JSON.parse(query.get("filter") ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

/** @param {Condition[]} of */
const keep = (of) => ask({ filter: of.length ? JSON.stringify(of) : "" });

/** @param {string} column @param {string} operator @param {unknown} value @param {string} [location] @param {string} [type] */
const field = (column, operator, value, location = "LOCATION_TYPE_EXPERIMENT", type = "COLUMN_TYPE_TEXT") => ({
  kind: "field", columnName: column, location, operator, type, value,
});

/** Return the filter that the API understands. @param {any} asked @param {string} me */
export function filterText(asked, me) {
  const children = asked.more.map((/** @type {Condition} */ c) => {
    const value = /Empty$/.test(c.operator) ? null : c.type.endsWith("NUMBER") ? Number(c.value) : c.type.endsWith("DATE") ? new Date(c.value).toISOString() : c.value;
    return field(c.column, c.operator, value, c.location, c.type);
  });
  if (asked.text) children.push(field("name", "contains", asked.text));
  if (asked.state) children.push(field("state", "=", asked.state));
  if (asked.mine) children.push(field("user", "=", me));
  return JSON.stringify({ filterGroup: { kind: "group", conjunction: "and", children }, showArchived: asked.archived });
}

/** @param {{ of: Condition[] }} props */
export const Chips = ({ of }) =>
  of.length > 0 &&
  html`
    <ul class="row" aria-label="Filters">
      ${of.map(
        (c, i) => html`
          <li class="label wide">
            <span class="cut">${c.column} ${wordsOf(c.operator)} ${c.value}</span>
            <button type="button" aria-label=${`Drop the filter on ${c.column}`} onClick=${() => keep(of.filter((_, j) => j !== i))}><${Icon} name="close" /></button>
          </li>
        `,
      )}
    </ul>
  `;

/** @param {{ known: any[], onClose: () => void }} props */
export function AddFilter({ known, onClose }) {
  const [name, setName] = useState(known[0]?.column ?? "");
  const [operator, setOperator] = useState("");
  const [value, setValue] = useState("");
  const column = known.find((c) => c.column === name);
  const type = (column?.type ?? "").replace("COLUMN_TYPE_", "").replace("UNSPECIFIED", "TEXT") || "TEXT";
  const fitting = OPERATORS.filter(([, , types]) => types.includes(type));
  const chosen = fitting.some(([o]) => o === operator) ? operator : (fitting[0]?.[0] ?? "=");
  const needs = !/Empty$/.test(chosen);
  const add = async () => {
    const all = conditions(new URLSearchParams(location.search));
    keep([...all, { column: name, location: column.location, type: column.type, operator: chosen, value: needs ? value : "" }]);
  };
  return html`
    <${Ask} title="Add a filter" act="Add" off=${!column || (needs && !value)} onAct=${add} onClose=${onClose}>
      <${Field} label="Column">
        <select class="input" value=${name} onChange=${(/** @type {any} */ e) => setName(e.target.value)}>
          ${known.map((c) => html`<option value=${c.column}>${c.displayName || c.column}</option>`)}
        </select>
      <//>
      <${Field} label="Condition">
        <select class="input" value=${chosen} onChange=${(/** @type {any} */ e) => setOperator(e.target.value)}>
          ${fitting.map(([o, words]) => html`<option value=${o}>${words}</option>`)}
        </select>
      <//>
      ${needs &&
      html`
        <${Field} label="Value">
          <input class="input" value=${value} type=${type === "DATE" ? "datetime-local" : type === "NUMBER" ? "number" : "text"} step="any"
            onInput=${(/** @type {any} */ e) => setValue(e.target.value)} />
        <//>
      `}
    <//>
  `;
}
