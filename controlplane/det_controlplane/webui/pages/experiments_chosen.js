// Actions on the selected experiments, which may be thousands.
import { applyToMany, work } from "../lib/bulk.js";
import { ACTIONS, MOST_COMPARED, offered } from "../lib/experiments.js";
import { counted } from "../lib/format.js";
import { may } from "../lib/rights.js";
import { link } from "../lib/router.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";
import { placeOf } from "../lib/workspaces.js";
import { Button } from "../parts/basic.js";
import { Refused, Working } from "../parts/bulk_results.js";
import { MoveExperiments } from "../parts/move_experiments.js";
import { Ask, tell } from "../parts/overlay.js";
import { ChosenBar } from "../parts/table.js";

/**
 * @typedef {Map<number, any>} Chosen experiments by id; of many there is only what decides about actions
 * @typedef {import("../lib/bulk.js").Result} Result
 * @typedef {{ name: string, results: Result[], rows: Chosen, did: number, left: number }} Outcome `results` are refusals; `left` were not reached
 */

/** @param {any} e */
const moves = (e) => !e.archived && may("UPDATE_EXPERIMENT", e.workspaceId);

/**
 * @param {{ chosen: Chosen, choose: (chosen: Chosen) => void, total: number, filter: string, every: () => Promise<any[]>, reload: () => Promise<unknown> }} props
 *   `every` gives all that the filter leaves; with another `filter` none is chosen
 */
export function Steering({ chosen, choose, total, filter, every, reload }) {
  const [open, setOpen] = useState("");
  const [refused, setRefused] = useState(/** @type {Outcome | null} */ (null));
  const rows = [...chosen.values()];
  const close = () => setOpen("");
  const now = useRef({ filter, gone: false });
  now.current.filter = filter;
  useEffect(() => () => void (now.current.gone = true), []);
  /** Choose these, unless they are of another filter than that which is there by now. @param {string} of @param {any[]} those */
  const chooseOf = (of, those) => of === now.current.filter && choose(new Map(those.map((e) => [e.id, e])));
  /** @param {string} name @param {any[]} targets @param {Result[]} results */
  const end = async (name, targets, results) => {
    const failed = results.filter((r) => r.error);
    // The message is shown although the user has left the page.
    if (failed.length && now.current.gone) tell(`${name} failed for ${counted(failed.length, "experiment")}: ${failed[0].error}`, { bad: true });
    else if (failed.length) setRefused({ name, results: failed, rows: new Map(targets.map((t) => [t.id, t])), did: results.length - failed.length, left: targets.length - results.length });
    await reload();
  };
  /** Do it, and keep chosen what refused or was not reached. @param {string} name @param {any[]} targets @param {string} action @param {object} body @param {(did: number) => string} told @param {(ids: Set<number>) => Promise<Result[]>} [back] */
  const act = async (name, targets, action, body, told, back) => {
    const results = await applyToMany(action, idsOf(targets), { name, body });
    const did = new Set(idsOf(results.filter((r) => !r.error)));
    const undo = back && (async () => {
      const undone = await back(did);
      const count = undone.filter((r) => !r.error).length;
      if (count) tell(`Undone for ${counted(count, "experiment")}`);
      await end("Undo", targets.filter((t) => did.has(t.id)), undone);
    });
    if (did.size) tell(told(did.size), { undo: undo && (() => void undo()) });
    chooseOf(filter, targets.filter((t) => !did.has(t.id)));
    await end(name, targets, results);
  };
  /** @param {any} a @param {any[]} targets */
  const command = (a, targets) => {
    const back = a.undo && ((/** @type {Set<number>} */ ids) => applyToMany(a.undo, [...ids], { name: "Undo" }));
    return act(a.name, targets, a.id, {}, (did) => `${a.done} ${counted(did, "experiment")}`, back);
  };
  /** @param {any} project @param {any[]} targets */
  const move = (project, targets) =>
    act("Move", targets, "move", { destinationProjectId: project.id }, (did) => `Moved ${counted(did, "experiment")} to ${placeOf(project)}`, (ids) => moveBack(targets.filter((t) => ids.has(t.id))));
  const chooseAll = () => void every().then((all) => chooseOf(filter, all), (e) => tell(e.message, { bad: true }));
  const offers = ACTIONS.map((a) => ({ ...a, targets: rows.filter((r) => offered(a, r)) })).filter((a) => a.targets.length);
  const movable = rows.filter(moves);
  const sure = offers.find((a) => a.id === open);
  const part = (/** @type {any[]} */ targets) => (targets.length < rows.length ? ` ${targets.length.toLocaleString("en")}` : "");
  const compared = rows.slice(0, MOST_COMPARED);
  return html`
    ${work.value && html`<${Working} of=${work.value} />`}
    ${!work.value &&
    html`
      <${ChosenBar} count=${rows.length} what="experiment" clear=${() => choose(new Map())}>
        ${rows.length < total && html`<button type="button" class="link" onClick=${chooseAll}>Select all ${total.toLocaleString("en")} matching</button>`}
        ${rows.length > 1 && html`<${Button} icon="columns" href=${link(`/compare?experiments=${compared.map((r) => r.id).join(",")}`)}>Compare${rows.length > compared.length ? ` the first ${compared.length}` : ""}<//>`}
        ${offers.map((a) => html`<${Button} kind=${a.danger ? "danger" : ""} icon=${a.icon} title=${a.sure ?? a.about} onClick=${() => (a.sure ? setOpen(a.id) : command(a, a.targets))}>${a.name}${part(a.targets)}<//>`)}
        ${movable.length > 0 && html`<${Button} icon="folder" onClick=${() => setOpen("move")}>Move${part(movable)}<//>`}
      <//>
    `}
    ${sure?.sure &&
    html`
      <${Ask} title=${`${sure.name} ${counted(sure.targets.length, "experiment")}?`} act=${sure.name} danger=${sure.danger} onAct=${async () => void command(sure, sure.targets)} onClose=${close}>
        <p class="soft">${sure.sure}</p>
      <//>
    `}
    ${open === "move" &&
    html`
      <${MoveExperiments} title=${`Move ${counted(movable.length, "experiment")}`} of=${movable} onMove=${async (/** @type {any} */ project) => void move(project, movable)} onClose=${close}>
        ${movable.length < rows.length && html`<p class="soft">Archived experiments are not moved.</p>`}
      <//>
    `}
    ${refused &&
    html`
      <${Refused} ...${refused} noun=${["experiment", "experiments"]} nameOf=${(/** @type {number} */ id) => refused.rows.get(id)?.name ?? ""} onClose=${() => setRefused(null)}
        id=${(/** @type {number} */ id) => html`<a href=${link(`/experiments/${id}`)}>${id}</a>`} />
    `}
  `;
}

/** @param {{ id: number }[]} of @returns {number[]} */
const idsOf = (of) => of.map((o) => o.id);

/** @param {any[]} rows as they were before */
async function moveBack(rows) {
  const results = [];
  for (const project of new Set(rows.map((r) => r.projectId))) {
    const ids = idsOf(rows.filter((r) => r.projectId === project));
    results.push(...(await applyToMany("move", ids, { name: "Undo", body: { destinationProjectId: project } })));
  }
  return results;
}
