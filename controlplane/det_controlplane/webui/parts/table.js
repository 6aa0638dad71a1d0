// A table for ten rows or ten thousand: only rows in sight are in the page, and rows may arrive in parts. On phones each
// row is a card; roles are written out, as some browsers take a table that is laid out otherwise for none.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/view.js";
import { Button, Icon } from "./basic.js";

/**
 * @typedef {{ name: string, title?: string, right?: boolean, main?: boolean | "whole", wrap?: boolean, sort?: string, cell: (row: any) => any }} Column what is `main` is cut where others need the room, unless it is "whole"
 * @typedef {{ chosen: Set<any>, onChange: (chosen: Set<any>) => void }} Choice
 */

const AHEAD = 12;
const ROW_PX = 40; // until one is there
// Rows come and go so many at a time: each change has the browser lay out the whole table.
const STEP = 6;
// Fewer rows are simply there: find-in-page and screen readers know all of them.
const VIRTUAL_FROM = 120;

/**
 * @param {{
 *   columns: Column[], label: string, total: number, row: (index: number) => any, id?: (row: any) => any,
 *   sort?: string, onSort?: (sort: string) => void, choice?: Choice, onSight?: (first: number, last: number) => void, tall?: boolean,
 *   rowProps?: (row: any) => Record<string, any>, query?: string
 * }} props `row` may give undefined while a row is on its way; `sort` is "column=asc" or "column=desc"; with another `query` or `sort` it begins at its first row
 */
export function Table({ columns, label, total, row, id = (r) => r.id, sort = "", onSort, choice, onSight, tall, rowProps, query }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const sight = useSight(box, total);
  useLayoutEffect(() => {
    if (box.current) box.current.scrollTop = 0;
  }, [query, sort]);
  useEffect(() => {
    onSight?.(sight.first, sight.last);
  }, [sight.first, sight.last, total]);
  const shown = [];
  for (let i = sight.first; i < sight.last; i++) shown.push([i, row(i)]);
  const width = columns.length + (choice ? 1 : 0);
  return html`
    <div class=${`table-scroll ${tall || total >= VIRTUAL_FROM ? "tall" : ""}`} ref=${box} tabindex="0" role="region" aria-label=${label} aria-keyshortcuts="Escape" onKeyDown=${leave}>
      <table class=${`table cards ${columns.some((c) => c.wrap) ? "told" : ""}`} role="table" aria-rowcount=${total + 1}>
        <thead role="rowgroup">
          <tr role="row">
            ${choice && html`<${ChooseAll} choice=${choice} rows=${shown.map(([, r]) => r).filter(Boolean)} id=${id} />`}
            ${columns.map((c) => html`<${Title} column=${c} sort=${sort} onSort=${onSort} />`)}
          </tr>
        </thead>
        <tbody role="rowgroup">
          ${sight.before > 0 && html`<tr class="space" aria-hidden="true"><td colspan=${width} style=${{ height: `${sight.before}px` }} /></tr>`}
          ${shown.map(([i, r]) =>
            r === undefined
              ? html`<tr role="row" key=${`wait-${i}`}><td role="cell" colspan=${width} style=${{ height: `${sight.height}px` }}><div class="bone" /></td></tr>`
              : html`<${Row} key=${id(r)} index=${i} row=${r} columns=${columns} choice=${choice} id=${id} props=${rowProps?.(r)} />`,
          )}
          ${sight.after > 0 && html`<tr class="space" aria-hidden="true"><td colspan=${width} style=${{ height: `${sight.after}px` }} /></tr>`}
        </tbody>
      </table>
    </div>
  `;
}

const STOPS = "a[href], button:not(:disabled), input, select, textarea, [tabindex='0']";

/** Go to what comes behind a table by Escape, or to the beginning of the page: thousands of rows are as many stops of the Tab key. @param {KeyboardEvent} e */
function leave(e) {
  const box = /** @type {HTMLElement} */ (e.currentTarget);
  // Open menus and dialogs are closed by it.
  if (e.key !== "Escape" || /** @type {Element} */ (e.target).closest(".menu:has([aria-expanded=true])") || box.closest("dialog")) return;
  const stops = [...document.querySelectorAll(STOPS)];
  const behind = stops.find((stop) => box.compareDocumentPosition(stop) === Node.DOCUMENT_POSITION_FOLLOWING && stop.getClientRects().length);
  /** @type {HTMLElement} */ (behind ?? stops[0]).focus();
}

/** Which rows are in sight, and how high the others are. @param {{ current: HTMLElement | null }} box @param {number} total */
function useSight(box, total) {
  const [first, setFirst] = useState(0);
  const [count, setCount] = useState(40);
  const [height, setHeight] = useState(ROW_PX);
  const virtual = total >= VIRTUAL_FROM;
  useEffect(() => {
    const element = box.current;
    if (!virtual || !element) return;
    let asked = 0;
    let one = ROW_PX;
    const look = () => {
      asked = 0;
      const found = heightOf(element);
      // Heights of rows differ a little. The visible range must not depend on the drawn rows.
      if (found && Math.abs(found - one) > one / 4) one = found;
      setHeight(one);
      const top = Math.floor(element.scrollTop / one) - AHEAD;
      setFirst(Math.max(0, top - (top % STEP)));
      setCount(Math.ceil(element.clientHeight / one) + 2 * AHEAD + STEP);
    };
    const later = () => {
      asked ||= requestAnimationFrame(look);
    };
    look();
    element.addEventListener("scroll", later, { passive: true });
    const sizes = new ResizeObserver(later);
    sizes.observe(element);
    return () => {
      element.removeEventListener("scroll", later);
      sizes.disconnect();
      cancelAnimationFrame(asked);
    };
  }, [virtual, total]);
  if (!virtual) return { first: 0, last: total, before: 0, after: 0, height };
  const from = Math.min(first, Math.max(0, total - count));
  const last = Math.min(total, from + count);
  return { first: from, last, before: from * height, after: (total - last) * height, height };
}

/** Return how high rows are that are there, or 0. @param {HTMLElement} box */
function heightOf(box) {
  const rows = [...box.querySelectorAll("tbody tr[aria-rowindex]")];
  return rows.reduce((sum, row) => sum + row.getBoundingClientRect().height, 0) / (rows.length || 1);
}

/** @param {{ column: Column, sort: string, onSort?: (sort: string) => void }} props */
function Title({ column, sort, onSort }) {
  const [by, direction] = sort.split("=");
  const sorted = column.sort && by === column.sort ? direction : "";
  const cls = column.right ? "right" : "";
  if (!column.sort || !onSort) return html`<th role="columnheader" scope="col" class=${cls} title=${column.title}>${column.name || html`<span class="hidden-visually">Actions</span>`}</th>`;
  const next = `${column.sort}=${sorted === "desc" ? "asc" : "desc"}`;
  return html`
    <th role="columnheader" scope="col" class=${cls} title=${column.title} aria-sort=${sorted ? (sorted === "asc" ? "ascending" : "descending") : undefined}>
      <button type="button" class="sort" onClick=${() => onSort(next)}>
        ${column.name}${sorted && html`<${Icon} name=${sorted === "asc" ? "up" : "down"} />`}
      </button>
    </th>
  `;
}

/** @param {{ row: any, index: number, columns: Column[], choice?: Choice, id: (row: any) => any, props?: Record<string, any> }} props */
function Row({ row, index, columns, choice, id, props }) {
  const key = id(row);
  const chosen = choice?.chosen.has(key);
  const latest = useRef(choice);
  latest.current = choice;
  const toggle = () => {
    const next = new Set(latest.current?.chosen);
    if (!next.delete(key)) next.add(key);
    latest.current?.onChange(next);
  };
  const cells = () => html`
    <tr role="row" ...${props} aria-rowindex=${index + 2} aria-selected=${choice ? String(chosen) : undefined}>
      ${choice && html`<td role="cell" class="pick"><input class="check" type="checkbox" aria-label=${`Select ${key}`} checked=${chosen} onChange=${toggle} /></td>`}
      ${columns.map((c) => html`<td role="cell" data-name=${c.main ? undefined : c.name || undefined} class=${`${c.right ? "right" : ""} ${c.main ? "main-cell" : ""} ${c.wrap ? "wrap" : ""}`}>${c.main === true ? html`<div class="yields"><div class="cut">${c.cell(row)}</div></div>` : c.cell(row)}</td>`)}
    </tr>
  `;
  // While the user scrolls or selects, unchanged rows are not created again.
  return useMemo(cells, [row, index, columns, chosen, props]);
}

/** @param {{ choice: Choice, rows: any[], id: (row: any) => any }} props */
function ChooseAll({ choice, rows, id }) {
  const all = rows.length > 0 && rows.every((r) => choice.chosen.has(id(r)));
  const toggle = () => choice.onChange(new Set(all ? [] : [...choice.chosen, ...rows.map(id)]));
  return html`<th role="columnheader" scope="col"><input class="check" type="checkbox" aria-label="Select all visible rows" checked=${all} onChange=${toggle} /></th>`;
}

/** A bar at the foot of a table: how many rows are chosen, and what can be done to them. @param {{ count: number, what: string, clear: () => void, children?: any }} props `what` is counted: "trial" */
export const ChosenBar = ({ count, what, clear, children }) =>
  count > 0 &&
  html`
    <div class="chosen" role="group" aria-label=${`Selected ${what}s`}>
      <span class="row"><strong role="status">${count.toLocaleString("en")} selected</strong><${Button} kind="plain square" icon="close" aria-label="Clear selection" onClick=${clear} /></span>
      ${children}
    </div>
  `;
