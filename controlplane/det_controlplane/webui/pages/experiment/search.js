// The search as a picture: a line for each trial, as long as it trained, and the rungs at which it was judged.
import { get } from "../../lib/api.js";
import { ended, metric, stateName } from "../../lib/format.js";
import { link } from "../../lib/router.js";
import { useTrials } from "../../lib/trials.js";
import { html, useState } from "../../lib/view.js";
import { Empty, Loaded, Panel } from "../../parts/basic.js";

const ROW = 18;
const LEFT = 84;
const RIGHT = 150;
const TOP = 34;
const WIDTH = 1000;

/** Lengths at which trials are compared. @param {any} searcher @returns {number[]} */
export function rungsOf(searcher) {
  const longest = searcher.max_time ?? Object.values(searcher.max_length ?? {})[0] ?? searcher.max_length;
  if (!searcher.divisor || typeof longest !== "number") return [];
  const count = Math.min(searcher.max_rungs ?? searcher.num_rungs ?? 5, 8);
  return Array.from({ length: count }, (_, i) => longest / searcher.divisor ** (count - 1 - i)).filter((x) => x >= 1);
}

/** @param {{ experiment: any }} props */
export function SearchPicture({ experiment }) {
  const trials = useTrials(experiment);
  return html`<${Loaded} of=${trials}>${(/** @type {any[]} */ rows) => (rows.length ? html`<${Picture} experiment=${experiment} trials=${rows} />` : html`<div class="panel"><${Empty} title="The search has not begun"><p>Its trials will be drawn here.</p><//></div>`)}<//>`;
}

/** @param {{ experiment: any, trials: any[] }} props */
function Picture({ experiment, trials }) {
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const [why, setWhy] = useState("");
  const searcher = experiment.config.searcher;
  const unit = searcher.time_metric ?? Object.keys(searcher.max_length ?? {})[0] ?? "batches";
  const rungs = rungsOf(searcher);
  const reached = (/** @type {any} */ t) => t.summaryMetrics?.validation_metrics?.[unit]?.max ?? t.totalBatchesProcessed;
  const longest = Math.max(1, ...rungs, ...trials.map(reached));
  const x = scale(rungs[0] ?? 1, longest, rungs.length > 1);
  const smaller = searcher.smaller_is_better !== false;
  const sorted = [...trials].sort((a, b) => reached(b) - reached(a) || compare(a, b, smaller)).slice(0, 400);
  const shade = shades(trials, smaller);
  /** @param {any} t */
  const choose = async (t) => {
    setChosen(t);
    setWhy("");
    const { reasons } = await get(`/api/v1/why/trial/${t.id}`).catch(() => ({ reasons: [] }));
    setWhy(reasons[0]?.sentence ?? "");
  };
  const stopped = sorted.filter((t) => ended(t.state) && reached(t) < longest).length;
  const told = `${trials.length} trials; ${stopped} stopped early${rungs.length ? `; rungs at ${rungs.map((r) => metric(Math.round(r))).join(", ")} ${unit}` : ""}.`;
  return html`
    <${Panel} title=${`${searcher.name} over ${trials.length} trials`}>
      <p class="soft search-told">${told} Each line is as long as its trial trained; the better its ${experiment.searcherMetric}, the stronger it is drawn.</p>
      <div class="table-scroll">
        <svg class="search-picture" viewBox=${`0 0 ${WIDTH} ${TOP + sorted.length * ROW + 8}`} role="group" aria-label=${told}>
          ${rungs.map(
            (r, i) => html`
              <line x1=${x(r)} x2=${x(r)} y1=${TOP - 8} y2=${TOP + sorted.length * ROW} class="rung" />
              <text x=${x(r)} y="12" class="rung-name" text-anchor="middle">rung ${i}</text>
              <text x=${x(r)} y="23" class="rung-at" text-anchor="middle">${metric(Math.round(r))}</text>
            `,
          )}
          ${sorted.map((t, i) => html`<${TrialLine} key=${t.id} t=${t} y=${TOP + i * ROW + ROW / 2} end=${x(reached(t))} strength=${shade(t)} chosen=${chosen?.id === t.id} best=${t.id === experiment.bestTrialId} onChoose=${() => choose(t)} />`)}
        </svg>
      </div>
      <p class="search-why" role="status">
        ${chosen
          ? html`<a href=${link(`/trials/${chosen.id}`)}>Trial ${chosen.id}</a> ${why || stateName(chosen.state).toLowerCase()}, after ${metric(reached(chosen))} ${unit} with ${experiment.searcherMetric} ${metric(chosen.searcherMetricValue)}.`
          : html`<span class="soft">Choose a line to see why it ended.</span>`}
      </p>
    <//>
  `;
}

/** @param {{ t: any, y: number, end: number, strength: number, chosen: boolean, best: boolean, onChoose: () => void }} props */
function TrialLine({ t, y, end, strength, chosen, best, onChoose }) {
  const running = !ended(t.state);
  const failed = t.state === "STATE_ERROR";
  const cls = `trial-line ${failed ? "failed" : ""} ${running ? "running" : ""} ${chosen ? "chosen" : ""}`;
  /** @param {KeyboardEvent} e */
  const onKey = (e) => {
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      onChoose();
    }
  };
  return html`
    <g class=${cls} tabindex="0" role="button" aria-pressed=${String(chosen)} onClick=${onChoose} onKeyDown=${onKey}>
      <rect x="0" y=${y - ROW / 2} width=${WIDTH} height=${ROW} class="hit" />
      <text x=${LEFT - 12} y=${y + 4} text-anchor="end" class="trial-name">Trial ${t.id} </text>
      <line x1=${LEFT} x2=${Math.max(end, LEFT + 2)} y1=${y} y2=${y} stroke-width="5" stroke-linecap="round" opacity=${strength} />
      <circle cx=${Math.max(end, LEFT + 2)} cy=${y} r=${best ? 6 : 4} />
      <text x=${Math.max(end, LEFT + 2) + 12} y=${y + 4} class="trial-value">${metric(t.searcherMetricValue)}${best ? " best" : ""}${t.state === "STATE_COMPLETED" ? "" : `, ${stateName(t.state).toLowerCase()}`}</text>
    </g>
  `;
}

/** @param {number} from @param {number} to @param {boolean} log @returns {(value: number) => number} */
function scale(from, to, log) {
  const room = WIDTH - LEFT - RIGHT;
  if (!log) return (value) => LEFT + (room * value) / to;
  const low = Math.log(from / 2);
  const high = Math.log(to);
  return (value) => LEFT + (room * (Math.log(Math.max(value, from / 2)) - low)) / (high - low || 1);
}

/** @param {any} a @param {any} b @param {boolean} smaller */
function compare(a, b, smaller) {
  const [x, y] = [a, b].map((t) => (typeof t.searcherMetricValue === "number" ? t.searcherMetricValue * (smaller ? 1 : -1) : Infinity));
  return x === y ? a.id - b.id : x - y;
}

/** How strongly a trial is drawn: by its place among all. @param {any[]} trials @param {boolean} smaller */
function shades(trials, smaller) {
  const order = new Map([...trials].sort((a, b) => compare(a, b, smaller)).map((t, i) => [t.id, i]));
  return (/** @type {any} */ t) => 0.95 - (0.65 * (order.get(t.id) ?? 0)) / Math.max(1, trials.length - 1);
}
