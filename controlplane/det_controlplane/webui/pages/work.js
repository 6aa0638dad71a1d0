// All work in one list: experiments, commands, notebooks, shells, TensorBoards and generic tasks.
import { get } from "../lib/api.js";
import { counted, money } from "../lib/format.js";
import { later } from "../lib/library.js";
import { useLive } from "../lib/live.js";
import { renewed, rowsOf, usePaged } from "../lib/paged.js";
import { ask, place } from "../lib/router.js";
import { user } from "../lib/session.js";
import { isExperiment, pageOf, TYPES } from "../lib/work.js";
import { html, useLayoutEffect, useMemo, useState } from "../lib/view.js";
import { Bones, Button, Empty, Failure, Head, Search, State, Toggle } from "../parts/basic.js";
import { Pick } from "../parts/fields.js";
import { Ask } from "../parts/overlay.js";
import { Person, personNamed } from "../parts/person.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";
import { Views } from "../parts/views.js";

/** @typedef {import("../lib/work.js").Work} Work */

const Steering = later(() => import("./work_chosen.js"), "Steering");
const DAY_MS = 86_400_000;
const OTHER = "…"; // no user name
const VIEWS = { path: "/work", storagePath: "det/work", kept: ["q", "type", "state", "owner", "workspace", "pool", "since", "archived", "sort"] };
/** The choices of the filter, each with its name and its states. @type {Record<string, [string, string[]]>} */
const STATES = {
  unfinished: ["Unfinished", ["ACTIVE", "PAUSED", "STOPPING"]],
  queued: ["Queued", ["QUEUED"]],
  running: ["Running", ["PULLING", "STARTING", "RUNNING", "STOPPING"]],
  paused: ["Paused", ["PAUSED"]],
  completed: ["Completed", ["COMPLETED"]],
  canceled: ["Canceled", ["CANCELED"]],
  error: ["Error", ["ERROR"]],
};
/** @type {[string, string][]} days, and their name */
const SPANS = [["", "Any time"], ["1", "Last day"], ["7", "Last week"], ["30", "Last month"], ["365", "Last year"]];
/** @type {Record<string, string>} */
const SORTS = { name: "NAME", owner: "USER", submitted: "SUBMISSION_TIME", ended: "END_TIME" };
const NEWEST = "submitted=desc";

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { name: "Name", main: true, sort: "name", cell: (/** @type {Work} */ w) => html`<a href=${pageOf(w)} title=${w.name}>${w.name || w.entityId.slice(0, 8)}</a>${isExperiment(w) && html` <span class="faint number">${w.entityId}</span>`}` },
  { name: "Type", cell: (/** @type {Work} */ w) => TYPES[w.type] ?? w.type },
  { name: "State", cell: (/** @type {Work} */ w) => html`<span title=${w.exitStatus || undefined}><${State} state=${w.state} /></span>` },
  { name: "Owner", sort: "owner", cell: (/** @type {Work} */ w) => w.displayName || w.username },
  { name: "Workspace", cell: (/** @type {Work} */ w) => w.workspaceName },
  { name: "Pool", cell: (/** @type {Work} */ w) => w.resourcePool },
  { name: "Priority", right: true, cell: (/** @type {Work} */ w) => w.priority },
  { name: "Slots", title: "Slots in use", right: true, cell: (/** @type {Work} */ w) => w.allocatedSlots || "" },
  { name: "Cost", title: "Cost of rented machines so far", right: true, cell: (/** @type {Work} */ w) => (w.costUsd ? money(w.costUsd) : "") },
  { name: "Submitted", right: true, sort: "submitted", cell: (/** @type {Work} */ w) => html`<${Ago} at=${w.submissionTime} />` },
  { name: "Ended", right: true, sort: "ended", cell: (/** @type {Work} */ w) => html`<${Ago} at=${w.endTime} never="" />` },
];

/** Return the filters of an address as the API takes them. @param {URLSearchParams} query */
function filterOf(query) {
  const [owner, type, state] = ["owner", "type", "state"].map((name) => query.get(name) ?? "");
  const days = Number(query.get("since"));
  return {
    text: query.get("q") || undefined,
    types: TYPES[`TYPE_${type.toUpperCase()}`] ? `TYPE_${type.toUpperCase()}` : undefined,
    states: STATES[state]?.[1].map((name) => `STATE_${name}`),
    users: (owner === "me" ? user.value?.username : owner) || undefined,
    workspaceIds: Number(query.get("workspace")) || undefined,
    resourcePools: query.get("pool") || undefined,
    since: days > 0 ? new Date(Math.floor(Date.now() / DAY_MS - days) * DAY_MS).toISOString() : undefined,
    archived: query.has("archived") || undefined,
  };
}

/** @param {string} sort "name=asc" */
function orderOf(sort) {
  const [name, direction] = sort.split("=");
  return { sortBy: `SORT_BY_${SORTS[name] ?? SORTS.submitted}`, orderBy: direction === "asc" ? "ORDER_BY_ASC" : "ORDER_BY_DESC" };
}

/** Add the cost of each row so far. @param {Work[]} rows @param {AbortSignal} signal */
async function withCosts(rows, signal) {
  const told = await Promise.all(
    [true, false].map(async (of) => {
      const ids = rows.filter((w) => isExperiment(w) === of).map((w) => w.entityId);
      if (!ids.length) return [];
      return (await get(`/api/v1/costs/${of ? "experiments" : "tasks"}`, { ids }, { signal }).catch(() => ({ costs: [] }))).costs;
    }),
  );
  const costs = new Map(told.flat().map((/** @type {any} */ c) => [String(c.id), c.costUsd]));
  return rows.map((w) => ({ ...w, costUsd: costs.get(w.entityId) ?? 0 }));
}

export function Page() {
  const { query } = place.value;
  const sort = query.get("sort") ?? NEWEST;
  const filter = filterOf(query);
  const key = JSON.stringify(filter);
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get("/api/v1/work", { ...filter, ...orderOf(sort), offset, limit }, { signal });
      return { rows: await withCosts(told.work, signal), total: told.pagination.total };
    },
    [key, sort],
  );
  const pools = useLive(async (signal) => (await get("/api/v1/resource-pools", {}, { signal })).resourcePools.map((/** @type {any} */ p) => p.name), []);
  const places = useLive(async (signal) => (await get("/api/v1/workspaces", { limit: -1, sortBy: "SORT_BY_NAME" }, { signal })).workspaces, []);
  // Columns that would say the same in each row are left out.
  const hidden = [(places.data?.length ?? 0) < 2 && "Workspace", !found.loaded().some((w) => w.costUsd) && "Cost"].filter(Boolean).join();
  const columns = useMemo(() => COLUMNS.filter((c) => !hidden.split(",").includes(c.name)), [hidden]);
  const [chosen, setChosen] = useState(/** @type {import("./work_chosen.js").Chosen} */ (new Map()));
  useLayoutEffect(() => setChosen(new Map()), [key]);
  const ids = useMemo(() => new Set(chosen.keys()), [chosen]);
  const narrowed = Object.values(filter).some((value) => value !== undefined);
  return html`
    <${Head} title="All work" text=${found.total === undefined ? " " : `${counted(found.total, "job")}: experiments and tasks of all types`}><${Views} of=${VIEWS} /><//>
    <div class="stack">
      <${Bar} query=${query} pools=${pools.data ?? []} places=${places.data ?? []} />
      <${Failure} error=${found.error} retry=${found.reload} />
      ${found.total === undefined && !found.error && html`<div class="panel"><${Bones} /></div>`}
      ${found.total === 0 && html`<div class="panel"><${None} narrowed=${narrowed} /></div>`}
      ${!!found.total &&
      html`
        <div class="panel">
          <${Table} label="All work" query=${key} columns=${columns} total=${found.total} row=${found.row} onSight=${found.onSight} id=${(/** @type {Work} */ w) => w.jobId}
            sort=${sort} onSort=${(/** @type {string} */ to) => ask({ sort: to === NEWEST ? "" : to })}
            choice=${{ chosen: ids, onChange: (/** @type {Set<string>} */ next) => setChosen(rowsOf(next, chosen, found, (w) => w.jobId)) }} />
        </div>
      `}
      <${Steering} when=${chosen.size > 0} chosen=${renewed(chosen, found.loaded(), (w) => w.jobId)} choose=${setChosen} pools=${pools.data ?? []} reload=${found.reload} />
    </div>
  `;
}

/** @param {{ narrowed: boolean }} props */
const None = ({ narrowed }) => html`
  <${Empty} title=${narrowed ? "No work matches your filters." : "No work yet"}>
    ${narrowed ? html`<${Button} onClick=${() => ask(Object.fromEntries(VIEWS.kept.map((name) => [name, ""])))}>Show all work<//>` : html`<p>Experiments and tasks appear here when somebody starts them.</p>`}
  <//>
`;

/** @param {{ query: URLSearchParams, pools: string[], places: any[] }} props */
function Bar({ query, pools, places }) {
  const [asking, setAsking] = useState(false);
  const workspaces = places.map((w) => /** @type {[string, string]} */ ([String(w.id), w.name]));
  /** @type {(name: string, label: string, any: string, of: [string, string][]) => any} */
  const pick = (name, label, any, of) => {
    const value = query.get(name) ?? "";
    // A value of the address that is not known, as of another user's link, is shown as it is.
    const others = /** @type {[string, string][]} */ (value && !of.some(([key]) => key === value) ? [[value, value]] : []);
    return html`<${Pick} label=${label} value=${value} set=${(/** @type {string} */ to) => (to === OTHER ? setAsking(true) : ask({ [name]: to }))} of=${[["", any], ...of, ...others]} />`;
  };
  const types = Object.entries(TYPES).map(([type, name]) => /** @type {[string, string]} */ ([type.replace("TYPE_", "").toLowerCase(), name]));
  const states = Object.entries(STATES).map(([key, [name]]) => /** @type {[string, string]} */ ([key, name]));
  const archived = query.has("archived");
  return html`
    <div class="row">
      <${Search} label="Search names" value=${query.get("q") ?? ""} onInput=${(/** @type {string} */ q) => ask({ q })} />
      ${pick("type", "Type", "Any type", types)}
      ${pick("state", "State", "Any state", states)}
      ${pick("owner", "Owner", "Any owner", [["me", "Mine"], [OTHER, "Somebody else…"]])}
      ${workspaces.length > 1 && pick("workspace", "Workspace", "Any workspace", workspaces)}
      ${pools.length > 1 && pick("pool", "Pool", "Any pool", pools.map((name) => [name, name]))}
      ${pick("since", "Submitted", SPANS[0][1], SPANS.slice(1))}
      <${Toggle} on=${archived} onClick=${() => ask({ archived: archived ? "" : "1" })}>Show archived<//>
      ${asking && html`<${AskOwner} onClose=${() => setAsking(false)} />`}
    </div>
  `;
}

/** @param {{ onClose: () => void }} props */
function AskOwner({ onClose }) {
  const [name, setName] = useState("");
  return html`
    <${Ask} title="Show the work of a user" act="Show" off=${!name.trim()} onAct=${async () => ask({ owner: (await personNamed(name)).username })} onClose=${onClose}>
      <${Person} label="Owner" value=${name} set=${setName} />
    <//>
  `;
}
