// A long list in a panel. It shows that it loads, failed or is empty, or rows that are read when they become visible.
import { html } from "../lib/view.js";
import { Bones, Failure } from "./basic.js";
import { Table } from "./table.js";

/** @param {{ of: import("../lib/paged.js").Paged, label: string, columns: import("./table.js").Column[], empty: any, id?: (row: any) => any, [more: string]: any }} props `empty` is shown where there is nothing */
export const Listing = ({ of, label, columns, empty, id, ...more }) => html`
  <${Failure} error=${of.error} retry=${of.reload} />
  ${of.total === undefined && !of.error && html`<${Bones} />`}
  ${of.total === 0 && empty}
  ${!!of.total && html`<${Table} label=${label} columns=${columns} total=${of.total} row=${of.row} onSight=${of.onSight} id=${id} ...${more} />`}
`;
