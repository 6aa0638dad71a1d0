// The search as a picture: a line for each trial, as long as it trained, and the rungs at which its bracket judged it.
import { get } from "../../lib/api.js";
import { counted, ended, metric, stateName } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { useRoving } from "../../lib/roving.js";
import { link } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { Button, Empty, Loaded, Panel } from "../../parts/basic.js";
import { Table } from "../../parts/table.js";

const ROW = 18;
const LEFT = 84;
const RIGHT = 190;
const TOP = 40;
const WIDTH = 1000;
// More lines than these are drawn when somebody asks for them.
const DRAWN = 200;

/** @typedef {{ id: number, state: string, trained: number, value: number | null, rungValue: number | null, bracket: number | null, rung: number, outcome: string | null, sentence: string }} Searched */
/** @typedef {{ length: number, arrived: number, wentOn: number, stopped: number, cutOff: number | null }} Rung */
/** @typedef {{ trials: number, rungs: Rung[] }} Bracket */
/** @typedef {{ value: number, limit: number | null, usdOfTraining: number | null, perUsd: number | null }} Gain the expected gain of another full training */
/** @typedef {{ method: string, metric: string, unit: string, smallerIsBetter: boolean, divisor: number | null, brackets: Bracket[], trials: Searched[], ending: { reason: string, sentence: string } | null, expectedGain: Gain | null }} Search */

/** Tell whether a rung ended a trial: promotion passes over those for whom no place came free. @param {Searched} t */
const isStopped = (t) => t.outcome === "STOPPED" || t.outcome === "PASSED_OVER";

/** The value that the last rung compared; the best value where no rung has decided. @param {Searched} t */
const decidedValue = (t) => t.rungValue ?? t.value;

/** @param {{ experiment: any }} props */
export function SearchPicture({ experiment }) {
  const found = useLive((signal) => get(`/api/v1/experiments/${experiment.id}/search`, {}, { signal }), [experiment.id], 0, experiment.revision);
  return html`<${Loaded} of=${found}>${(/** @type {Search} */ search) => (search.trials.length ? html`<${Shown} search=${search} best=${experiment.bestTrialId} />` : html`<div class="panel"><${Empty} title="The search has not started"><p>Trials appear here when it starts.</p><//></div>`)}<//>`;
}

/** @param {{ search: Search, best: number }} props */
function Shown({ search, best }) {
  const [all, setAll] = useState(false);
  const sorted = inOrder(search);
  const drawn = all ? sorted : sorted.slice(0, DRAWN);
  const stopped = search.trials.filter(isStopped).length;
  const brackets = search.brackets.length > 1 ? ` in ${search.brackets.length} brackets` : "";
  const told = `${counted(search.trials.length, "trial")}${brackets}${search.brackets.length ? `; ${stopped} stopped at a rung` : ""}.`;
  return html`
    <div class="stack">
      <${Panel} title=${`${search.method} over ${counted(search.trials.length, "trial")}`}
        actions=${drawn.length < sorted.length && html`<span class="small soft" role="status">Showing the ${DRAWN} longest trials</span><${Button} onClick=${() => setAll(true)}>Show all ${sorted.length}<//>`}>
        <p class="soft search-told">${told} Line length is training length; stronger lines have a better ${search.metric}.${search.brackets.length > 0 && ` Each value is the ${search.metric} at the last rung that the trial reached.`}${stopped > 0 && " A stopped trial may run slightly past its rung."}</p>
        ${outlook(search) && html`<p class="soft" role="status">${outlook(search)}</p>`}
        <${Picture} search=${search} trials=${drawn} best=${best} told=${told} />
      <//>
      ${search.brackets.length > 0 && html`<${Rungs} search=${search} />`}
    </div>
  `;
}

/** Return the reason for an early end, or the expected gain of another full training. @param {Search} search */
function outlook({ ending, expectedGain: gain, metric: name }) {
  if (ending) return `${ending.sentence[0].toUpperCase()}${ending.sentence.slice(1)}.`;
  if (!gain) return "";
  const price = gain.perUsd !== null ? `, ${metric(gain.perUsd)} for each dollar` : "";
  const limit = gain.limit !== null ? ` The search ends below ${metric(gain.limit)}.` : "";
  return `Another full training is expected to improve ${name} by ${metric(gain.value)}${price}.${limit}`;
}

/** @param {{ search: Search, trials: Searched[], best: number, told: string }} props */
function Picture({ search, trials, best, told }) {
  const [chosen, setChosen] = useState(/** @type {Searched | null} */ (null));
  const [why, setWhy] = useState("");
  const { part, onKeyDown } = useRoving(trials.length);
  const lengths = search.brackets.flatMap((b) => b.rungs.map((r) => r.length));
  const x = scale(Math.min(...lengths), Math.max(1, ...lengths, ...trials.map((t) => t.trained)), lengths.length > 1);
  const shade = shades(search);
  const { rows, bands, height } = laidOut(search, trials);
  /** @param {Searched} t */
  const choose = async (t) => {
    setChosen(t);
    setWhy(t.sentence);
    if (t.sentence) return;
    const { reasons } = await get(`/api/v1/why/trial/${t.id}`).catch(() => ({ reasons: [] }));
    setWhy(reasons[0]?.sentence ?? "");
  };
  return html`
    <div class="table-scroll">
      <svg class="search-picture" viewBox=${`0 0 ${WIDTH} ${height}`} role="group" aria-label=${`${told} Use the arrow keys to move between trials.`} onKeyDown=${onKeyDown}>
        ${bands.map((band) => html`<${Band} ...${band} x=${x} named=${search.brackets.length > 1} />`)}
        ${trials.map((t, i) => html`<${TrialLine} key=${t.id} t=${t} y=${rows[i]} end=${x(t.trained)} strength=${shade(t)} chosen=${chosen?.id === t.id} best=${t.id === best} part=${part(i)} onChoose=${() => choose(t)} />`)}
      </svg>
    </div>
    <p class="search-why" role="status">
      ${chosen
        ? html`<a href=${link(`/trials/${chosen.id}`)}>Trial ${chosen.id}</a> ${why || stateName(chosen.state).toLowerCase()}. It trained for ${metric(chosen.trained)} ${search.unit}; its best ${search.metric} is ${metric(chosen.value)}.`
        : html`<span class="soft">Select a line to see why the trial ended.</span>`}
    </p>
  `;
}

/** Draw the rungs of one bracket over its trials. @param {{ index: number, bracket: Bracket, from: number, to: number, x: (value: number) => number, named: boolean }} props */
const Band = ({ index, bracket, from, to, x, named }) => html`
  ${named && html`<text x="0" y=${from - 14} class="rung-name">Bracket ${index + 1}</text>`}
  ${bracket.rungs.map(
    (r, i) => html`
      <line x1=${x(r.length)} x2=${x(r.length)} y1=${from - 8} y2=${to} class="rung" />
      <text x=${x(r.length)} y=${from - 25} class="rung-name" text-anchor="middle">rung ${i + 1}</text>
      <text x=${x(r.length)} y=${from - 11} class="rung-at" text-anchor="middle">${metric(r.length)}</text>
    `,
  )}
`;

/** @param {{ t: Searched, y: number, end: number, strength: number, chosen: boolean, best: boolean, part: any, onChoose: () => void }} props */
function TrialLine({ t, y, end, strength, chosen, best, part, onChoose }) {
  const running = !ended(t.state);
  const value = decidedValue(t);
  const cls = `trial-line ${t.state === "STATE_ERROR" ? "failed" : ""} ${running ? "running" : ""} ${chosen ? "chosen" : ""}`;
  const how = isStopped(t) ? `stopped at rung ${t.rung}` : t.outcome === "WAITS" && running ? `waiting at rung ${t.rung}` : t.state === "STATE_COMPLETED" ? "" : running && !t.trained ? "not started" : stateName(t.state).toLowerCase();
  /** @param {KeyboardEvent} e */
  const onKey = (e) => {
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      onChoose();
    }
  };
  const at = Math.max(end, LEFT + 2);
  return html`
    <g class=${cls} role="button" aria-pressed=${String(chosen)} onClick=${onChoose} onKeyDown=${onKey} ...${part}>
      <rect x="0" y=${y - ROW / 2} width=${WIDTH} height=${ROW} class="hit" />
      <text x=${LEFT - 12} y=${y + 4} text-anchor="end" class="trial-name">Trial ${t.id} </text>
      <line x1=${LEFT} x2=${at} y1=${y} y2=${y} stroke-width="5" stroke-linecap="round" opacity=${strength} />
      <circle cx=${at} cy=${y} r=${best ? 6 : 4} />
      <text x=${at + 12} y=${y + 4} class="trial-value">${[value !== null && metric(value), best && "best trial", how].filter(Boolean).join(", ")}</text>
    </g>
  `;
}

/** @param {{ search: Search }} props */
function Rungs({ search }) {
  const rows = search.brackets.flatMap((b, i) => b.rungs.map((r, j) => ({ ...r, id: `${i}.${j}`, bracket: i + 1, rung: j + 1, last: j === b.rungs.length - 1 })));
  /** @typedef {typeof rows[0]} Row */
  const columns = [
    search.brackets.length > 1 && { name: "Bracket", right: true, cell: (/** @type {Row} */ r) => r.bracket },
    { name: "Rung", right: true, cell: (/** @type {Row} */ r) => r.rung },
    { name: search.unit, right: true, cell: (/** @type {Row} */ r) => metric(r.length) },
    { name: "Reached", right: true, cell: (/** @type {Row} */ r) => r.arrived },
    { name: "Continued", right: true, cell: (/** @type {Row} */ r) => (r.last ? "–" : r.wentOn) },
    { name: "Stopped", right: true, cell: (/** @type {Row} */ r) => (r.last ? "–" : r.stopped) },
    { name: `Worst ${search.metric} that continued`, right: true, cell: (/** @type {Row} */ r) => (r.last || r.cutOff === null ? "–" : metric(r.cutOff)) },
  ].filter(Boolean);
  return html`<${Panel} title="Rungs" flush><${Table} label="Rungs" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} /><//>`;
}

/** Place a row for each trial, below the heading of its bracket. @param {Search} search @param {Searched[]} trials */
function laidOut(search, trials) {
  /** @type {{ index: number, bracket: Bracket, from: number, to: number }[]} */
  const bands = [];
  let y = search.brackets.length ? 0 : 6;
  let last = /** @type {number | null} */ (null);
  const rows = trials.map((t) => {
    const bracket = t.bracket === null ? undefined : search.brackets[t.bracket];
    if (bracket && t.bracket !== last) {
      y += TOP;
      bands.push({ index: /** @type {number} */ (t.bracket), bracket, from: y, to: y });
      last = t.bracket;
    }
    y += ROW;
    if (bands.length) bands[bands.length - 1].to = y;
    return y - ROW / 2;
  });
  return { rows, bands, height: y + 8 };
}

/** Order by bracket, then those that trained longest, then the best. @param {Search} search */
const inOrder = (search) =>
  [...search.trials].sort((a, b) => (a.bracket ?? 99) - (b.bracket ?? 99) || b.trained - a.trained || compare(a, b, search.smallerIsBetter));

/** @param {number} from @param {number} to @param {boolean} log @returns {(value: number) => number} */
function scale(from, to, log) {
  const room = WIDTH - LEFT - RIGHT;
  if (!log) return (value) => LEFT + (room * value) / to;
  const low = Math.log(from / 2);
  const high = Math.log(to);
  return (value) => LEFT + (room * (Math.log(Math.max(value, from / 2)) - low)) / (high - low || 1);
}

/** @param {Searched} a @param {Searched} b @param {boolean} smaller */
function compare(a, b, smaller) {
  const [x, y] = [a, b].map(decidedValue).map((value) => (value === null ? Infinity : value * (smaller ? 1 : -1)));
  return x === y ? a.id - b.id : x - y;
}

/** How strongly a trial is drawn: by its place among all. @param {Search} search */
function shades({ trials, smallerIsBetter }) {
  const order = new Map([...trials].sort((a, b) => compare(a, b, smallerIsBetter)).map((t, i) => [t.id, i]));
  return (/** @type {Searched} */ t) => 0.95 - (0.65 * (order.get(t.id) ?? 0)) / Math.max(1, trials.length - 1);
}
