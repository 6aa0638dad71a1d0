// Actions on the selected work: experiments and tasks of every type together.
import { work as working } from "../lib/bulk.js";
import { counted } from "../lib/format.js";
import { ACTIONS, apply, isExperiment, isQueued, move, pageOf, prioritize } from "../lib/work.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";
import { Button } from "../parts/basic.js";
import { Refused, Working } from "../parts/bulk_results.js";
import { Choice, Line } from "../parts/fields.js";
import { Ask, tell } from "../parts/overlay.js";
import { ChosenBar } from "../parts/table.js";

/**
 * @typedef {import("../lib/work.js").Work} Work
 * @typedef {import("../lib/work.js").Result} Result
 * @typedef {Map<string, Work>} Chosen by job
 */

/** @type {[string, string]} */
const NOUN = ["job", "jobs"];

/** @param {{ chosen: Chosen, choose: (chosen: Chosen) => void, pools: string[], reload: () => Promise<unknown> }} props */
export function Steering({ chosen, choose, pools, reload }) {
  const [open, setOpen] = useState("");
  const [refused, setRefused] = useState(/** @type {{ name: string, results: Result[], rows: Chosen, did: number, left: number } | null} */ (null));
  const rows = [...chosen.values()];
  const close = () => setOpen("");
  const gone = useRef(false);
  useEffect(() => () => void (gone.current = true), []);
  /** @param {string} name @param {Work[]} targets @param {Result[]} results */
  const end = async (name, targets, results) => {
    const failed = results.filter((r) => r.error);
    // The message is shown although the user has left the page.
    if (failed.length && gone.current) tell(`${name} failed for ${counted(failed.length, ...NOUN)}: ${failed[0].error}`, { bad: true });
    else if (failed.length) setRefused({ name, results: failed, rows: new Map(targets.map((t) => [t.jobId, t])), did: results.length - failed.length, left: targets.length - results.length });
    await reload();
  };
  /** Run an action. Rows that it refused or did not reach stay selected. @param {string} name @param {Work[]} targets @param {() => Promise<Result[]>} act @param {(did: number) => string} told @param {(those: Work[]) => Promise<Result[]>} [back] */
  const run = async (name, targets, act, told, back) => {
    const results = await act();
    const did = new Set(results.filter((r) => !r.error).map((r) => r.id));
    const those = targets.filter((t) => did.has(t.jobId));
    const undo = back && (async () => {
      const undone = await back(those);
      const count = undone.filter((r) => !r.error).length;
      if (count) tell(`Undone for ${counted(count, ...NOUN)}`);
      await end("Undo", those, undone);
    });
    if (did.size) tell(told(did.size), { undo: undo && (() => void undo()) });
    choose(new Map(targets.filter((t) => !did.has(t.jobId)).map((t) => [t.jobId, t])));
    await end(name, targets, results);
  };
  /** @param {import("../lib/work.js").Action} a @param {Work[]} targets */
  const command = (a, targets) => {
    const { undo } = a;
    const back = undo ? (/** @type {Work[]} */ those) => apply(undo, those, "Undo") : undefined;
    return run(a.name, targets, () => apply(a.id, targets, a.name), (did) => `${a.done} ${counted(did, ...NOUN)}`, back);
  };
  /** @param {number} priority @param {Work[]} targets */
  const setPriority = (priority, targets) =>
    run("Set priority", targets, () => prioritize(targets, () => priority, "Set priority"), (did) => `Set the priority of ${counted(did, ...NOUN)} to ${priority}`, (those) => prioritize(those, (w) => w.priority, "Undo"));
  /** @param {string} pool @param {Work[]} targets */
  const setPool = (pool, targets) =>
    run("Move", targets, () => move(targets, () => pool, "Move"), (did) => `Moved ${counted(did, ...NOUN)} to ${pool}`, (those) => move(those, (w) => w.resourcePool, "Undo"));
  const offers = ACTIONS.map((a) => ({ ...a, targets: rows.filter(a.fits) })).filter((a) => a.targets.length);
  const queued = rows.filter(isQueued);
  const movable = queued.filter(isExperiment);
  const sure = offers.find((a) => a.id === open);
  const part = (/** @type {Work[]} */ targets) => (targets.length < rows.length ? ` ${targets.length.toLocaleString("en")}` : "");
  return html`
    ${working.value && html`<${Working} of=${working.value} />`}
    ${!working.value &&
    html`
      <${ChosenBar} count=${rows.length} what="job" clear=${() => choose(new Map())}>
        ${offers.map((a) => html`<${Button} kind=${a.danger ? "danger" : ""} icon=${a.icon} title=${a.sure} onClick=${() => (a.sure ? setOpen(a.id) : void command(a, a.targets))}>${a.name}${part(a.targets)}<//>`)}
        ${queued.length > 0 && html`<${Button} icon="top" onClick=${() => setOpen("priority")}>Priority${part(queued)}<//>`}
        ${movable.length > 0 && pools.length > 1 && html`<${Button} icon="server" onClick=${() => setOpen("pool")}>Pool${part(movable)}<//>`}
      <//>
    `}
    ${sure?.sure &&
    html`
      <${Ask} title=${`${sure.name} ${counted(sure.targets.length, ...NOUN)}?`} act=${sure.name} danger=${sure.danger} onAct=${async () => void command(sure, sure.targets)} onClose=${close}>
        <p class="soft">${sure.sure}</p>
      <//>
    `}
    ${open === "priority" && html`<${AskPriority} rows=${queued} onAct=${(/** @type {number} */ to) => void setPriority(to, queued)} onClose=${close} />`}
    ${open === "pool" && html`<${AskPool} rows=${movable} pools=${pools} onAct=${(/** @type {string} */ to) => void setPool(to, movable)} onClose=${close} />`}
    ${refused &&
    html`
      <${Refused} ...${refused} noun=${NOUN} nameOf=${(/** @type {string} */ id) => refused.rows.get(id)?.name ?? ""} onClose=${() => setRefused(null)}
        id=${(/** @type {string} */ id) => numberOf(refused.rows.get(id))} />
    `}
  `;
}

/** @param {Work | undefined} w */
const numberOf = (w) => w && html`<a href=${pageOf(w)}>${w.entityId.slice(0, 8)}</a>`;

/** @param {{ rows: Work[], onAct: (priority: number) => void, onClose: () => void }} props */
function AskPriority({ rows, onAct, onClose }) {
  const [text, setText] = useState(String(rows[0]?.priority ?? ""));
  return html`
    <${Ask} title=${`Set the priority of ${counted(rows.length, ...NOUN)}`} act="Set priority" off=${!text} onAct=${async () => onAct(Number(text))} onClose=${onClose}>
      <${Line} label="Priority" hint="1 is the highest, 99 the lowest" type="number" min="1" max="99" required value=${text} set=${setText} />
    <//>
  `;
}

/** @param {{ rows: Work[], pools: string[], onAct: (pool: string) => void, onClose: () => void }} props */
function AskPool({ rows, pools, onAct, onClose }) {
  const [pool, setPool] = useState(pools.find((name) => name !== rows[0]?.resourcePool) ?? pools[0]);
  return html`
    <${Ask} title=${`Move ${counted(rows.length, "experiment")} to a pool`} act="Move" onAct=${async () => onAct(pool)} onClose=${onClose}>
      <${Choice} label="Resource pool" hint="Running trials save a checkpoint, stop and wait in the new pool." value=${pool} set=${setPool} of=${pools.map((name) => [name, name])} />
    <//>
  `;
}
