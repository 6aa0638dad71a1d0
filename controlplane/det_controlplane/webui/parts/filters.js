// The filter of a table: its conditions as chips, and a dialog that edits them.
import { isGroup, isReady, kindOf, needsValue, operatorsOf, pruned, wordsOf } from "../lib/filters.js";
import { counted, localOf, stateName, zonedOf } from "../lib/format.js";
import { html, useState } from "../lib/view.js";
import { Button, Icon } from "./basic.js";
import { useChecked, Verdict } from "./checked.js";
import { Pick } from "./fields.js";
import { Ask } from "./overlay.js";

/**
 * @typedef {import("../lib/filters.js").Condition} Condition
 * @typedef {import("../lib/filters.js").Group} Group
 * @typedef {import("../lib/filters.js").Node} Node
 * @typedef {{ column: string, name: string, group: string, location: string, type: string, values?: string[] }} Filterable
 */

const DEEPEST = 3; // groups within each other; more is read by nobody

/** @param {{ of: Group, nameOf: (column: string) => string, keep: (group: Group) => void, open: () => void }} props */
export function Chips({ of, nameOf, keep, open }) {
  const parts = of.join === "and" || of.of.length < 2 ? of.of : [of];
  if (!parts.length) return null;
  return html`
    <ul class="row" aria-label="Filters">
      ${parts.map((part, i) => {
        const words = wordsOf(part, nameOf);
        const rest = part === of ? [] : of.of.filter((_, j) => j !== i);
        return html`
          <li class="label wide">
            <button type="button" class="chip cut" title=${`Edit: ${words}`} onClick=${open}>${words}</button>
            <button type="button" aria-label=${`Remove filter ${words}`} onClick=${() => keep({ ...of, of: rest })}><${Icon} name="close" /></button>
          </li>
        `;
      })}
      ${parts.length > 1 && html`<li><${Button} kind="plain" onClick=${() => keep({ join: "and", of: [] })}>Clear all filters<//></li>`}
    </ul>
  `;
}

/**
 * @param {{ columns: Filterable[], of: Group, what: string, count: (group: Group, signal: AbortSignal) => Promise<number>, keep: (group: Group) => void, onClose: () => void }} props
 *   `what` is counted: "experiment"
 */
export function FilterBuilder({ columns, of, what, count, keep, onClose }) {
  const [draft, setDraft] = useState(/** @type {Group} */ (of.of.length ? of : { join: "and", of: [blank(columns)] }));
  const ready = isReady(draft);
  const verdict = useChecked(async (signal) => (ready ? told(await count(pruned(draft), signal), what) : ""), [JSON.stringify(draft)]);
  return html`
    <${Ask} title="Filter" act="Apply" wide off=${!ready || !!verdict.problems} onAct=${async () => keep(pruned(draft))} onClose=${onClose}>
      <${GroupEditor} group=${draft} columns=${columns} depth=${1} set=${setDraft} />
      ${ready ? html`<${Verdict} of=${verdict} what="" />` : html`<p class="soft small" role="status">Enter a value for each condition, or remove it.</p>`}
    <//>
  `;
}

/** @param {number} count @param {string} what */
const told = (count, what) => `${counted(count, what)} ${count === 1 ? "matches" : "match"}.`;

/** @param {Filterable[]} columns @returns {Condition} */
function blank([first]) {
  return { column: first.column, location: first.location, type: first.type, operator: operatorsOf(first.type)[0][0], value: "" };
}

/** @param {{ group: Group, columns: Filterable[], depth: number, set: (group: Group) => void, drop?: () => void }} props */
function GroupEditor({ group, columns, depth, set, drop }) {
  /** @param {number} i @param {Node} node */
  const put = (i, node) => set({ ...group, of: group.of.map((n, j) => (j === i ? node : n)) });
  /** @param {number} i */
  const without = (i) => set({ ...group, of: group.of.filter((_, j) => j !== i) });
  /** @param {Node} node */
  const add = (node) => set({ ...group, of: [...group.of, node] });
  const name = drop ? "Group" : "Filter";
  return html`
    <fieldset class=${`filter-group ${drop ? "inner" : ""}`}>
      <legend class="hidden-visually">${name}</legend>
      <div class="row">
        <${Pick} label=${`${name} logic`} value=${group.join} set=${(/** @type {"and" | "or"} */ join) => set({ ...group, join })} of=${[["and", "Match all conditions"], ["or", "Match any condition"]]} />
        ${drop && html`<${Button} kind="plain square" icon="close" aria-label="Remove group" onClick=${drop} />`}
      </div>
      ${group.of.map((node, i) =>
        isGroup(node)
          ? html`<${GroupEditor} key=${i} group=${node} columns=${columns} depth=${depth + 1} set=${(/** @type {Group} */ g) => put(i, g)} drop=${() => without(i)} />`
          : html`<${ConditionEditor} key=${i} of=${node} columns=${columns} set=${(/** @type {Condition} */ c) => put(i, c)} drop=${() => without(i)} />`,
      )}
      <div class="row">
        <${Button} icon="plus" onClick=${() => add(blank(columns))}>Add condition<//>
        ${depth < DEEPEST && html`<${Button} icon="plus" onClick=${() => add({ join: group.join === "and" ? "or" : "and", of: [blank(columns)] })}>Add group<//>`}
      </div>
    </fieldset>
  `;
}

/** @param {{ of: Condition, columns: Filterable[], set: (condition: Condition) => void, drop: () => void }} props */
function ConditionEditor({ of, columns, set, drop }) {
  const operators = operatorsOf(of.type);
  const column = columns.find((c) => c.column === of.column);
  /** @param {string} name */
  const choose = (name) => {
    const to = /** @type {Filterable} */ (columns.find((c) => c.column === name));
    const same = kindOf(to.type) === kindOf(of.type) && !to.values && !column?.values;
    set({ ...blank([to]), ...(same ? { operator: of.operator, value: of.value } : {}) });
  };
  const groups = [...new Set(columns.map((c) => c.group))];
  return html`
    <div class="filter-row">
      <select class="input" aria-label="Column" value=${of.column} onChange=${(/** @type {any} */ e) => choose(e.target.value)}>
        ${!column && html`<option value=${of.column}>${of.column}</option>`}
        ${groups.map((g) => html`<optgroup label=${g}>${columns.filter((c) => c.group === g).map((c) => html`<option value=${c.column}>${c.name}</option>`)}</optgroup>`)}
      </select>
      <select class="input" aria-label="Operator" value=${of.operator} onChange=${(/** @type {any} */ e) => set({ ...of, operator: e.target.value })}>
        ${operators.map(([o, words]) => html`<option value=${o}>${words}</option>`)}
      </select>
      ${needsValue(of.operator) ? html`<${Value} of=${of} values=${column?.values} set=${(/** @type {string} */ value) => set({ ...of, value })} />` : html`<span />`}
      <${Button} kind="plain square" icon="close" aria-label="Remove condition" onClick=${drop} />
    </div>
  `;
}

/** @param {{ of: Condition, values?: string[], set: (value: string) => void }} props */
function Value({ of, values, set }) {
  const onInput = (/** @type {any} */ e) => set(e.target.value);
  if (values && ["=", "!="].includes(of.operator)) {
    return html`
      <select class="input" aria-label="Value" value=${of.value} onChange=${onInput}>
        ${!values.includes(of.value) && html`<option value=${of.value}>${of.value || "Select one"}</option>`}
        ${values.map((v) => html`<option value=${v}>${stateName(v)}</option>`)}
      </select>
    `;
  }
  if (kindOf(of.type) === "DATE") {
    return html`<input class="input" aria-label="Value" type="datetime-local" step="any" value=${localOf(of.value)} onInput=${(/** @type {any} */ e) => set(zonedOf(e.target.value))} />`;
  }
  const type = kindOf(of.type) === "NUMBER" ? "number" : "text";
  return html`<input class="input" aria-label="Value" type=${type} step="any" value=${of.value} onInput=${onInput} />`;
}
