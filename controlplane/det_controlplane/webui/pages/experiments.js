// All experiments: found, sorted, compared at a glance, and steered many at once.
import { get, post } from "../lib/api.js";
import { filterOf, sizeOf, textOf } from "../lib/filters.js";
import { counted, stateName } from "../lib/format.js";
import { later } from "../lib/library.js";
import { useLive } from "../lib/live.js";
import { renewed, rowsOf, usePaged } from "../lib/paged.js";
import { ask, link, place } from "../lib/router.js";
import { maySomewhere } from "../lib/rights.js";
import { html, useLayoutEffect, useMemo, useState } from "../lib/view.js";
import { placeOf } from "../lib/workspaces.js";
import { Bones, Button, Empty, Failure, Head, Search, Toggle } from "../parts/basic.js";
import { Pick } from "../parts/fields.js";
import { Table } from "../parts/table.js";
import { Views } from "../parts/views.js";
import { cellOf, COLUMNS, columnOf } from "./experiments_columns.js";
import { filterable, filterText, groupOf, STATES } from "./experiments_filter.js";

// Most users only read the list. The scripts of filters and actions are loaded on demand.
const Chips = later(() => import("../parts/filters.js"), "Chips");
const FilterBuilder = later(() => import("../parts/filters.js"), "FilterBuilder");
const ColumnChoice = later(() => import("../parts/columns.js"), "ColumnChoice");
const Steering = later(() => import("./experiments_chosen.js"), "Steering");
const VIEWS = { path: "/experiments", storagePath: "det/experiments", kept: ["q", "state", "mine", "archived", "sort", "filter", "columns", "project"] };
const DEFAULT = "id,name,state,progress,searcherMetricsVal,numTrials,user,startTime,duration";

/** @param {URLSearchParams} query */
function askedIn(query) {
  const { group, dropped } = filterOf(query);
  const own = { text: query.get("q") ?? "", state: query.get("state") ?? "", mine: query.has("mine"), archived: query.has("archived") };
  return { ...own, sort: query.get("sort") ?? "id=desc", project: Number(query.get("project") ?? 0), more: group, dropped };
}

/** Search experiments. @param {object} body @param {AbortSignal} [signal] */
const search = (body, signal) => post("/api/v1/experiments-search", body, { signal });

/** @param {import("../lib/filters.js").Group} group */
const keep = (group) => ask({ filter: textOf(group) });

export function Page() {
  const { query } = place.value;
  const asked = askedIn(query);
  const filter = filterText(asked);
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await search({ projectId: asked.project, offset, limit, sort: asked.sort, filter }, signal);
      return { rows: told.experiments, total: told.pagination.total };
    },
    [filter, asked.sort, asked.project],
  );
  const every = async () => (await search({ projectId: asked.project, limit: -1, sort: asked.sort, filter, brief: true })).experiments.map((/** @type {any} */ row) => row.experiment);
  const project = useLive(async (signal) => asked.project && (await get(`/api/v1/projects/${asked.project}`, {}, { signal })).project, [asked.project]);
  const known = useLive(async () => (await get(`/api/v1/projects/${asked.project}/columns`)).columns, [asked.project]);
  const names = (query.get("columns") ?? DEFAULT).split(",");
  // The same object while only rows are added, so that drawn rows stay.
  const columns = useMemo(() => names.map((name) => columnOf(name, known.data ?? [])).filter(Boolean), [names.join(), known.data]);
  const [chosen, setChosen] = useState(/** @type {import("./experiments_chosen.js").Chosen} */ (new Map()));
  useLayoutEffect(() => setChosen(new Map()), [filter, asked.project]);
  const ids = useMemo(() => new Set(chosen.keys()), [chosen]);
  const listed = { total: found.total, row: (/** @type {number} */ i) => found.row(i)?.experiment };
  const [building, setBuilding] = useState(false);
  const open = () => setBuilding(true);
  const newOne = link(`/experiments/new${asked.project ? `?project=${asked.project}` : ""}`);
  const narrowed = asked.text || asked.state || asked.mine || sizeOf(asked.more);
  return html`
    <${Head} title="Experiments" text=${found.total === undefined ? " " : `${counted(found.total, "experiment")}${project.data ? ` in ${placeOf(project.data)}` : ""}`}>
      ${maySomewhere("CREATE_EXPERIMENT") && html`<${Button} kind="primary" icon="plus" href=${newOne}>New experiment<//>`}
    <//>
    <div class="stack">
      <${Bar} asked=${asked} known=${known.data ?? []} names=${names} open=${open} />
      <${Chips} when=${sizeOf(asked.more) > 0} of=${asked.more} nameOf=${(/** @type {string} */ column) => cellOf(column, known.data ?? []).name} keep=${keep} open=${open} />
      ${asked.dropped > 0 && html`<${Dropped} of=${asked.more} />`}
      <${Failure} error=${project.error} retry=${project.reload} />
      <${Failure} error=${found.error} retry=${found.reload} />
      ${found.total === undefined && !found.error && html`<div class="panel"><${Bones} /></div>`}
      ${found.total === 0 && !project.error && html`<div class="panel">${narrowed ? html`<${NoneFits} />` : html`<${NoneYet} archived=${asked.archived} newOne=${newOne} />`}</div>`}
      ${!!found.total &&
      html`
        <div class="panel">
          <${Table} label="Experiments" query=${`${asked.project} ${filter}`} columns=${columns} total=${found.total} row=${found.row} onSight=${found.onSight} id=${(/** @type {any} */ r) => r.experiment.id}
            sort=${asked.sort} onSort=${(/** @type {string} */ sort) => ask({ sort })}
            choice=${{ chosen: ids, onChange: (/** @type {Set<number>} */ next) => setChosen(rowsOf(next, chosen, listed, (e) => e.id)) }} />
        </div>
      `}
      <${Steering} when=${chosen.size > 0} chosen=${renewed(chosen, found.loaded().map((r) => r.experiment), (e) => e.id)} choose=${setChosen} total=${found.total ?? 0} filter=${`${asked.project} ${filter}`} every=${every} reload=${found.reload} />
      ${building &&
      known.data &&
      html`
        <${FilterBuilder} columns=${filterable(known.data)} of=${asked.more} what="experiment" keep=${keep} onClose=${() => setBuilding(false)}
          count=${async (/** @type {any} */ group, /** @type {AbortSignal} */ signal) => (await search({ projectId: asked.project, limit: -2, filter: filterText({ ...asked, more: group }) }, signal)).pagination.total} />
      `}
    </div>
  `;
}

/** @param {{ of: import("../lib/filters.js").Group }} props what is understood */
const Dropped = ({ of }) => html`
  <div class="notice" role="status">
    <p>A filter in the URL is invalid and was ignored. The link may be incomplete.</p>
    <${Button} onClick=${() => keep(of)}>Remove filter<//>
  </div>
`;

/** @param {{ asked: any, known: any[], names: string[], open: () => void }} props */
function Bar({ asked, known, names, open }) {
  const [choosing, setChoosing] = useState(false);
  const others = known.filter((c) => /^hp\.|\.(last|min|max|mean)$/.test(c.column));
  const offered = [
    ...Object.entries(COLUMNS).map(([column, { name }]) => ({ column, name, group: "General" })),
    ...others.map((c) => ({ column: c.column, name: cellOf(c.column, known).name, group: groupOf(c) })),
  ];
  /** A table without any column would show nothing. @param {string[]} shown */
  const show = (shown) => shown.length > 0 && ask({ columns: shown.join(",") === DEFAULT ? "" : shown.join(",") });
  return html`
    <div class="row">
      <${Search} label="Search names" value=${asked.text} onInput=${(/** @type {string} */ q) => ask({ q })} />
      <${Pick} label="State" value=${asked.state} set=${(/** @type {string} */ state) => ask({ state })} of=${[["", "Any state"], ...STATES.map((s) => [s, stateName(s)])]} />
      <${Toggle} on=${asked.mine} onClick=${() => ask({ mine: asked.mine ? "" : "1" })}>Mine<//>
      <${Toggle} on=${asked.archived} onClick=${() => ask({ archived: asked.archived ? "" : "1" })}>Show archived<//>
      <${Button} icon="plus" onClick=${open}>Filter<//>
      <${Button} icon="columns" onClick=${() => setChoosing(true)}>Columns<//>
      <${Views} of=${VIEWS} />
      ${choosing && html`<${ColumnChoice} of=${offered} shown=${names} usual=${DEFAULT.split(",")} set=${show} onClose=${() => setChoosing(false)} />`}
    </div>
  `;
}

const NoneFits = () => html`
  <${Empty} title="No experiments match your filters.">
    <${Button} onClick=${() => ask({ q: "", state: "", mine: "", filter: "" })}>Show all experiments<//>
  <//>
`;

/** @param {{ archived: boolean, newOne: string }} props */
const NoneYet = ({ archived, newOne }) => html`
  <${Empty} title="No experiments yet">
    <p>An experiment trains your code with a configuration. Create one here or from a terminal:</p>
    <pre>det experiment create adaptive.yaml .</pre>
    ${!archived && html`<p>To see archived experiments, select “Show archived”.</p>`}
    ${maySomewhere("CREATE_EXPERIMENT") && html`<${Button} kind="primary" icon="plus" href=${newOne}>New experiment<//>`}
  <//>
`;
