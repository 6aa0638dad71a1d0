// All experiments: found, sorted, compared at a glance, and steered many at once.
import { get, post } from "../lib/api.js";
import { ACTIONS, commandMany } from "../lib/experiments.js";
import { counted } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { usePaged } from "../lib/paged.js";
import { ask, link, place } from "../lib/router.js";
import { user } from "../lib/session.js";
import { html, useEffect, useState } from "../lib/view.js";
import { Bones, Button, Empty, Failure, Head, Search } from "../parts/basic.js";
import { Ask, Menu, tell } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { cellOf, COLUMNS, columnOf } from "./experiments_columns.js";
import { Views } from "./experiments_views.js";
import { AddFilter, conditions, Chips, filterText } from "./experiments_filter.js";

const STATES = ["ACTIVE", "PAUSED", "COMPLETED", "CANCELED", "ERROR"];
const DEFAULT = "id,name,state,progress,searcherMetricsVal,numTrials,user,startTime,duration";

export function Page() {
  const { query } = place.value;
  const asked = {
    text: query.get("q") ?? "",
    state: query.get("state") ?? "",
    mine: query.has("mine"),
    archived: query.has("archived"),
    sort: query.get("sort") ?? "id=desc",
    project: Number(query.get("project") ?? 0),
    more: conditions(query),
  };
  const filter = filterText(asked, user.value?.username ?? "");
  const found = usePaged(
    async (offset, limit, signal) => {
      const body = { projectId: asked.project, offset, limit, sort: asked.sort, filter };
      const told = await post("/api/v1/experiments-search", body, { signal });
      return { rows: told.experiments, total: told.pagination.total };
    },
    [filter, asked.sort, asked.project],
  );
  const known = useLive(async () => (await get(`/api/v1/projects/${asked.project}/columns`)).columns, [asked.project]);
  const names = (query.get("columns") ?? DEFAULT).split(",");
  const columns = names.map((name) => columnOf(name, known.data ?? [])).filter(Boolean);
  const [chosen, setChosen] = useState(new Map());
  useEffect(() => setChosen(new Map()), [filter, asked.project]);
  const narrowed = asked.text || asked.state || asked.mine || asked.more.length;
  return html`
    <${Head} title="Experiments" text=${found.total === undefined ? " " : counted(found.total, "experiment")} />
    <div class="stack">
      <${Bar} asked=${asked} known=${known.data ?? []} names=${names} />
      <${Chips} of=${asked.more} />
      <${Failure} error=${found.error} retry=${found.reload} />
      ${found.total === undefined && !found.error && html`<div class="panel"><${Bones} /></div>`}
      ${found.total === 0 && html`<div class="panel">${narrowed ? html`<${NoneFits} />` : html`<${NoneYet} />`}</div>`}
      ${!!found.total &&
      html`
        <div class="panel">
          <${Table} label="Experiments" columns=${columns} total=${found.total} row=${found.row} onSight=${found.onSight} id=${(/** @type {any} */ r) => r.experiment.id}
            sort=${asked.sort} onSort=${(/** @type {string} */ sort) => ask({ sort })}
            choice=${{ chosen: new Set(chosen.keys()), onChange: (/** @type {Set<number>} */ ids) => setChosen(rowsOf(ids, chosen, found)) }} />
        </div>
        <${Chosen} rows=${[...chosen.values()]} clear=${() => setChosen(new Map())} reload=${found.reload} />
      `}
    </div>
  `;
}

/** @param {Set<number>} ids @param {Map<number, any>} before @param {{ total?: number, row: (i: number) => any }} found */
function rowsOf(ids, before, found) {
  const rows = new Map([...before].filter(([id]) => ids.has(id)));
  for (let i = 0; i < (found.total ?? 0) && rows.size < ids.size; i++) {
    const one = found.row(i)?.experiment;
    if (one && ids.has(one.id)) rows.set(one.id, one);
  }
  return rows;
}

/** @param {{ asked: any, known: any[], names: string[] }} props */
function Bar({ asked, known, names }) {
  const [adding, setAdding] = useState(false);
  /** @param {string} name */
  const toggle = (name) => ask({ columns: (names.includes(name) ? names.filter((n) => n !== name) : [...names, name]).join(",") });
  const offered = [...Object.keys(COLUMNS), ...known.map((c) => c.column).filter((c) => /^hp\.|^(training|validation)\..*\.(last|min|max)$/.test(c))];
  return html`
    <div class="row">
      <${Search} label="Search names" value=${asked.text} onInput=${(/** @type {string} */ q) => ask({ q })} />
      <select class="input inline" aria-label="State" value=${asked.state} onChange=${(/** @type {any} */ e) => ask({ state: e.target.value })}>
        <option value="">Any state</option>
        ${STATES.map((s) => html`<option value=${s}>${s.charAt(0) + s.slice(1).toLowerCase()}</option>`)}
      </select>
      <${Button} aria-pressed=${String(asked.mine)} kind=${asked.mine ? "on" : ""} onClick=${() => ask({ mine: asked.mine ? "" : "1" })}>Mine<//>
      <${Button} aria-pressed=${String(asked.archived)} kind=${asked.archived ? "on" : ""} onClick=${() => ask({ archived: asked.archived ? "" : "1" })}>Archived too<//>
      <${Button} icon="plus" onClick=${() => setAdding(true)}>Filter<//>
      <${Menu} label="Columns" text="Columns" items=${offered.map((name) => ({ name: `${names.includes(name) ? "✓ " : ""}${cellOf(name, known).name}`, act: () => toggle(name) }))} />
      <${Views} />
      ${adding && html`<${AddFilter} known=${known} onClose=${() => setAdding(false)} />`}
    </div>
  `;
}

const NoneFits = () => html`
  <${Empty} title="No experiment fits">
    <p>Nothing has all of these properties.</p>
    <${Button} onClick=${() => ask({ q: "", state: "", mine: "", filter: "" })}>Show all experiments<//>
  <//>
`;

const NoneYet = () => html`
  <${Empty} title="No experiments yet">
    <p>An experiment is a configuration and the code that it trains. The first one comes from a terminal; the next from here, with “Fork”.</p>
    <pre>det experiment create adaptive.yaml .</pre>
  <//>
`;

/** @param {{ rows: any[], clear: () => void, reload: () => Promise<unknown> }} props */
function Chosen({ rows, clear, reload }) {
  const [sure, setSure] = useState(/** @type {import("../lib/experiments.js").Action | null} */ (null));
  if (!rows.length) return null;
  /** @param {string} id @param {any[]} targets @param {string} done @param {string} [undo] */
  const apply = async (id, targets, done, undo) => {
    const refused = await commandMany(id, targets);
    if (refused.length) tell(refused.slice(0, 3).join("\n"), { bad: true });
    const count = targets.length - refused.length;
    if (count) tell(`${done} ${counted(count, "experiment")}`, { undo: undo ? () => void apply(undo, targets, "Undone:") : undefined });
    clear();
    await reload();
  };
  const offers = ACTIONS.map((a) => ({ ...a, targets: rows.filter(a.fits) })).filter((a) => a.targets.length);
  return html`
    <div class="chosen" role="group" aria-label="Chosen experiments">
      <strong>${counted(rows.length, "experiment")} chosen</strong>
      ${rows.length > 1 && html`<${Button} icon="columns" href=${link(`/compare?experiments=${rows.map((r) => r.id).join(",")}`)}>Compare<//>`}
      ${offers.map(
        (a) => html`
          <${Button} kind=${a.danger ? "danger" : ""} icon=${a.icon} onClick=${() => (a.sure ? setSure(a) : apply(a.id, a.targets, a.done, a.undo))}>
            ${a.name}${a.targets.length < rows.length ? ` ${a.targets.length}` : ""}
          <//>
        `,
      )}
      <${Button} kind="plain square" icon="close" aria-label="Choose none" onClick=${clear} />
      ${sure &&
      html`
        <${Ask} title=${`${sure.name} ${counted(rows.filter(sure.fits).length, "experiment")}?`} act=${sure.name} danger=${sure.danger}
          onAct=${() => apply(sure.id, rows.filter(sure.fits), sure.done)} onClose=${() => setSure(null)}>
          <p class="soft">${sure.sure}</p>
        <//>
      `}
    </div>
  `;
}
