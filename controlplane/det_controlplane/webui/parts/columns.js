// The dialog in which users choose the columns of a table: it can be searched, and shows columns in groups.
import { counted } from "../lib/format.js";
import { html, useState } from "../lib/view.js";
import { Button, Search } from "./basic.js";
import { Dialog } from "./overlay.js";
import { Tick } from "./fields.js";

// An experiment may have thousands of metrics. The search reaches the columns that are not drawn.
const MOST = 200;

/** @typedef {{ column: string, name: string, group: string }} Offered */

/** @param {{ of: Offered[], shown: string[], set: (shown: string[]) => void, usual: string[], onClose: () => void }} props `usual` are the columns without a choice */
export function ColumnChoice({ of, shown, set, usual, onClose }) {
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const fitting = of.filter((c) => `${c.name} ${c.group}`.toLowerCase().includes(wanted));
  const drawn = fitting.slice(0, MOST);
  const groups = [...new Set(drawn.map((c) => c.group))];
  /** @param {string} column */
  const toggle = (column) => set(shown.includes(column) ? shown.filter((c) => c !== column) : [...shown, column]);
  return html`
    <${Dialog} title="Columns" wide onClose=${onClose}>
      <${Search} label="Search columns" value=${text} onInput=${setText} />
      <div class="stack column-groups">
        ${groups.map(
          (group) => html`
            <fieldset key=${group}>
              <legend>${group}</legend>
              <div class="column-names">
                ${drawn.filter((c) => c.group === group).map((c) => html`<${Tick} key=${c.column} label=${c.name} value=${shown.includes(c.column)} set=${() => toggle(c.column)} />`)}
              </div>
            </fieldset>
          `,
        )}
        <p class="soft small" role="status">${fitting.length ? (drawn.length < fitting.length ? `Showing ${MOST} of ${fitting.length.toLocaleString("en")} columns. Search for the others.` : `${counted(fitting.length, "column")}, ${shown.length} shown`) : "No columns match your search."}</p>
      </div>
      <div class="dialog-foot">
        <${Button} disabled=${shown.join() === usual.join()} onClick=${() => set(usual)}>Reset to default<//>
        <${Button} kind="primary" onClick=${onClose}>Done<//>
      </div>
    <//>
  `;
}
