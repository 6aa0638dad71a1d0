// How far an action on many things is, and which of them refused it.
import { counted } from "../lib/format.js";
import { html } from "../lib/view.js";
import { Button, Progress } from "./basic.js";
import { Dialog } from "./overlay.js";
import { Table } from "./table.js";

/** @param {{ of: import("../lib/bulk.js").Work }} props */
export const Working = ({ of }) => html`
  <div class="chosen" role="group" aria-label="In progress">
    <span role="status">${of.name}: ${of.done.toLocaleString("en")} of ${of.of.toLocaleString("en")} done</span>
    <${Progress} value=${of.done / of.of} />
    <${Button} onClick=${of.stop}>Cancel the rest<//>
  </div>
`;

/**
 * @param {{ name: string, results: { id: any, error: string }[], did: number, left: number, noun: [string, string], id: (id: any) => any, nameOf: (id: any) => string, onClose: () => void }} props
 *   `results` are refusals; `left` were not reached; `id` draws the number of one
 */
export function Refused({ name, results, did, left, noun, id, nameOf, onClose }) {
  const columns = [
    { name: "ID", right: true, cell: (/** @type {any} */ r) => id(r.id) },
    { name: "Name", main: true, cell: (/** @type {any} */ r) => nameOf(r.id) },
    { name: "Reason", wrap: true, cell: (/** @type {any} */ r) => r.error },
  ];
  return html`
    <${Dialog} title=${`${name} failed for ${counted(results.length, ...noun)}`} wide onClose=${onClose}>
      <p class="soft">${did ? `${counted(did, ...noun)} succeeded` : `No ${noun[1]} succeeded`}${left ? `, and ${left.toLocaleString("en")} were not attempted` : ""}.</p>
      <div class="panel"><${Table} label="Failures" columns=${columns} total=${results.length} row=${(/** @type {number} */ i) => results[i]} /></div>
      <div class="dialog-foot"><${Button} kind="primary" onClick=${onClose}>Close<//></div>
    <//>
  `;
}
