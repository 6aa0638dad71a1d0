// The audit log: who changed what, when and from where.
import { get } from "../../lib/api.js";
import { counted, moment } from "../../lib/format.js";
import { usePaged } from "../../lib/paged.js";
import { ask, place } from "../../lib/router.js";
import { save } from "../../lib/save.js";
import { html, useMemo, useState } from "../../lib/view.js";
import { Button, Empty, Pairs, Panel, Search } from "../../parts/basic.js";
import { Pick } from "../../parts/fields.js";
import { Listing } from "../../parts/listing.js";
import { attempt, Dialog } from "../../parts/overlay.js";
import { Area } from "./area.js";

const EXPORTED = 1_000;
/** @type {[string, string][]} */
const SINCE = [["", "All time"], ["1h", "Last hour"], ["24h", "Last day"], ["168h", "Last week"], ["720h", "Last 30 days"]];

export function Page() {
  const { query } = place.value;
  const asked = { username: query.get("user") ?? "", action: query.get("action") ?? "", object: query.get("object") ?? "", since: query.get("since") ?? "" };
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get("/api/v1/audit", { ...asked, offset, limit, orderBy: "ORDER_BY_DESC" }, { signal });
      return { rows: told.entries, total: told.pagination.total };
    },
    [JSON.stringify(asked)],
  );
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState(/** @type {any} */ (null));
  const columns = useMemo(() => columnsOf(setOpen), []);
  const download = async () => {
    setBusy(true);
    await attempt(() => exported(asked), "Exported as JSON Lines");
    setBusy(false);
  };
  return html`
    <${Area} at="/admin/audit" text=${found.total === undefined ? " " : counted(found.total, "entry", "entries")}
      actions=${html`<${Button} disabled=${busy || !found.total} onClick=${download}>${busy ? "Exporting …" : "Export"}<//>`}>
      <div class="row">
        <${Search} label="User name" value=${asked.username} onInput=${(/** @type {string} */ user) => ask({ user })} />
        <${Search} label="Action" placeholder="Action, such as users" value=${asked.action} onInput=${(/** @type {string} */ action) => ask({ action })} />
        <${Search} label="Object" placeholder="Object, such as experiment 7" value=${asked.object} onInput=${(/** @type {string} */ object) => ask({ object })} />
        <${Pick} label="Since" value=${asked.since} set=${(/** @type {string} */ since) => ask({ since })} of=${SINCE} />
      </div>
      <${Panel} flush>
        <${Listing} of=${found} label="Audit log" columns=${columns}
          empty=${html`<${Empty} title="No entries match your filters."><p>Enter full names of users, actions and objects. “users” also matches actions that start with “users.”.</p><//>`} />
      <//>
      ${open && html`<${Entry} of=${open} onClose=${() => setOpen(null)} />`}
    <//>
  `;
}

/** @param {(entry: any) => void} show */
const columnsOf = (show) => [
  { name: "Time", cell: (/** @type {any} */ e) => html`<span class="number">${moment(e.at)}</span>` },
  { name: "User", cell: (/** @type {any} */ e) => e.username || html`<span class="faint">none</span>` },
  { name: "Action", main: "whole", cell: (/** @type {any} */ e) => e.action },
  { name: "Object", cell: (/** @type {any} */ e) => e.object },
  { name: "Via", cell: viaOf },
  { name: "Address", cell: (/** @type {any} */ e) => e.address },
  {
    name: "Details",
    cell: (/** @type {any} */ e) => html`<button type="button" class="detail yields" aria-haspopup="dialog" onClick=${() => show(e)}><span class="cut">${told(e.details) || "Show details"}</span></button>`,
  },
];

/** @param {any} e */
const viaOf = (e) => (e.taskId ? `task ${e.taskId.slice(0, 8)}` : e.via);

/** Return the name of a field in words: "slotsPerTrial" and "slots_per_trial" are "Slots per trial". @param {string} field */
function nameOf(field) {
  const words = field.replace(/[._]/g, " ").replace(/([a-z\d])([A-Z])/g, "$1 $2").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {{ of: any, onClose: () => void }} props */
function Entry({ of, onClose }) {
  const { fields = [], ...details } = of.details;
  return html`
    <${Dialog} title=${`${of.action} by ${of.username || "no user"}`} onClose=${onClose}>
      <${Pairs} of=${[
        ["Time", moment(of.at)],
        ["Object", of.object || "–"],
        ["Via", viaOf(of)],
        ["Address", of.address || "–"],
        ...Object.entries(details).map(([name, value]) => [nameOf(name), text(value)]),
        ...(fields.length ? [["Fields", fields.map(nameOf).join(", ")]] : []),
      ]} />
      <div class="dialog-foot"><${Button} onClick=${onClose}>Close<//></div>
    <//>
  `;
}

/** @param {Record<string, any>} details */
function told(details) {
  const named = Object.entries(details).filter(([name]) => name !== "fields").map(([name, value]) => `${name}=${text(value)}`);
  return [...named, ...(details.fields ?? [])].join(", ");
}

/** @param {any} value @returns {string} */
function text(value) {
  if (Array.isArray(value)) return value.map(text).join(" ");
  return value && typeof value === "object" ? Object.entries(value).map(([name, inner]) => `${name}=${text(inner)}`).join(" ") : String(value);
}

/** Return the moment that a span such as "24h" begins at: it stays the same from one part to the next. @param {string} span */
const beginOf = (span) => (/^\d+h$/.test(span) ? new Date(Date.now() - parseInt(span) * 3_600_000).toISOString() : span);

/** Save everything that fits, oldest first, one object a line. @param {Record<string, string>} asked */
async function exported(asked) {
  const parts = [];
  const fixed = { ...asked, since: beginOf(asked.since) };
  for (let offset = 0; ; offset += EXPORTED) {
    const { entries } = await get("/api/v1/audit", { ...fixed, offset, limit: EXPORTED });
    parts.push(...entries.map((/** @type {any} */ e) => `${JSON.stringify(e)}\n`));
    if (entries.length < EXPORTED) break;
  }
  save(new Blob(parts, { type: "application/jsonl" }), `audit-${new Date().toISOString().slice(0, 10)}.jsonl`);
}
