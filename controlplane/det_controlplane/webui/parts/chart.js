// Curves, drawn by uPlot, which is fetched with the first chart.
import { counted, metric } from "../lib/format.js";
import { colourOf, dashesOf } from "./curve_look.js";
import { steer } from "./chart_range.js";
import { limitsOf, logTicks, notFiniteOf, outsideOf, pathOf, tickLabels } from "./chart_scale.js";
import { library, token } from "../lib/library.js";
import { onThemeChange } from "../lib/theme.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/view.js";
import { Bones, Failure } from "./basic.js";
import { showTip } from "./chart_tip.js";

/** @typedef {{ name: string, x: number[], y: (number | null)[], of?: number, thin?: boolean, last?: unknown }} Curve `of`: the trial that gives the curve its look */

/** @typedef {import("./chart_scale.js").Scale} Scale */

const NEAR_PX = 24;
const AXIS_PX = 16; // beside the labels of an axis
const WHOLE_STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();
const TOLD = 5; // curves that screen readers are told of

/** @type {CanvasRenderingContext2D | null | undefined} that measures texts */
let pen;

const uplot = library(async () => (await import("../vendor/uplot.js")).default, new URL("../vendor/uplot.css", import.meta.url));

/** Average each point with those before it, as TensorBoard does. @param {(number | null)[]} values @param {number} weight of 0 to 1 */
export function smoothed(values, weight) {
  if (!weight) return values;
  let last = 0;
  let count = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    last = last * weight + (1 - weight) * value;
    count += 1;
    return last / (1 - weight ** count);
  });
}

/**
 * @param {{ curves: Curve[], label: string, x?: string, time?: boolean, log?: boolean, ignores?: boolean, height?: number, onRange?: (range: import("./chart_range.js").Range | null) => void }} props
 */
export function Chart({ curves, label, x = "", time = false, log = false, ignores = true, onRange, height = Math.round(Math.min(Math.max(innerHeight * 0.42, 300), 640)) }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const tip = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const latest = useRef(curves);
  latest.current = curves;
  const told = useRef(onRange);
  told.current = onRange;
  const [Plot, setPlot] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const [theme, setTheme] = useState(0);
  const [range, setRange] = useState(/** @type {import("./chart_range.js").Range | null} */ (null));
  const scale = useMemo(() => ({ log, ignores }), [log, ignores]);
  const [outside, notFinite] = useMemo(() => {
    const shown = { min: range?.from ?? -Infinity, max: range?.to ?? Infinity };
    return [outsideOf(curves, shown, scale), notFiniteOf(curves, shown)];
  }, [curves, range, scale]);
  useEffect(() => {
    uplot().then(
      (found) => setPlot(() => found),
      () => setError(new Error("The chart did not load. Reload the page.")),
    );
    return onThemeChange(() => setTheme((n) => n + 1));
  }, []);
  const names = curves.map((c) => `${c.of} ${c.name}`).join("\n");
  useEffect(() => {
    const element = box.current;
    if (!Plot || !element) return;
    const made = new Plot(options(Plot, element, tip, latest, { x, time, scale, height }), aligned(Plot, curves), element);
    plot.current = made;
    const ends = steer(made, (shown) => {
      setRange(shown);
      told.current?.(shown);
    });
    const sizes = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      ends();
      made.destroy();
      plot.current = null;
    };
  }, [Plot, names, x, time, scale, theme, height]);
  useEffect(() => {
    const drawn = plot.current;
    if (!drawn) return;
    const zoomed = isZoomed(drawn);
    drawn.setData(aligned(Plot, curves), !zoomed);
    if (zoomed) drawn.redraw(true, true);
  }, [curves]);
  if (error) return html`<${Failure} error=${error} />`;
  return html`
    <div class="chart">
      ${!Plot && html`<${Bones} lines=${5} />`}
      <div ref=${box} role="img" tabindex="0" aria-label=${summary(label, curves)} aria-keyshortcuts="+ - ArrowLeft ArrowRight 0"></div>
      <div class="chart-tip" ref=${tip} aria-hidden="true" hidden></div>
    </div>
    ${outside.points > 0 && html`<p class="faint small" role="status">${counted(outside.curves, "curve")} of ${curves.length} ${outside.curves === 1 ? "leaves" : "leave"} the range: ${counted(outside.points, "point")} not shown.</p>`}
    ${notFinite.points > 0 && html`<p class="faint small" role="status">${counted(notFinite.points, "value")} of ${counted(notFinite.curves, "curve")} ${notFinite.points === 1 ? "is" : "are"} NaN or infinite.</p>`}
  `;
}

/** @param {string} label @param {Curve[]} curves */
function summary(label, curves) {
  const told = curves.slice(0, TOLD).map((c) => {
    const values = /** @type {number[]} */ (c.y.filter(Number.isFinite));
    if (!values.length) return `${c.name} has no values`;
    const [least, most] = values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    return `${c.name} from ${metric(values[0])} to ${metric(values[values.length - 1])}, minimum ${metric(least)}, maximum ${metric(most)}`;
  });
  const rest = curves.length > TOLD ? [`and ${curves.length - TOLD} more`] : [];
  return `${label}: ${counted(curves.length, "curve")}. ${[...told, ...rest].join("; ")}`;
}

/** @param {any} plot */
function isZoomed(plot) {
  const xs = plot.data[0];
  return xs.length > 1 && (plot.scales.x.min > xs[0] || plot.scales.x.max < xs[xs.length - 1]);
}

/** @param {any} Plot @param {Curve[]} curves */
function aligned(Plot, curves) {
  if (!curves.length) return [[], []];
  return Plot.join(curves.map((c) => [c.x, c.y]));
}

/** @param {any} Plot @param {HTMLElement} element @param {{ current: HTMLElement | null }} tip @param {{ current: Curve[] }} latest @param {{ x: string, time: boolean, scale: Scale, height: number }} how */
function options(Plot, element, tip, latest, { x, time, scale, height }) {
  const curves = latest.current;
  const many = curves.length > 20;
  const dashes = dashesOf(curves.map((c) => c.of));
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    focus: { alpha: 0.25 },
    cursor: { focus: { prox: NEAR_PX }, points: { size: 7 }, drag: { x: true, y: false, setScale: true } },
    // The first series has the x range that will be visible; scales.x still has the previous range.
    scales: { x: { time }, y: { distr: scale.log ? 3 : 1, range: (/** @type {any} */ u) => around(Plot, limitsOf(latest.current, u.series[0], scale), scale.log) } },
    axes: axesOf(x, time, scale.log),
    series: [
      {},
      ...curves.map((c, i) => ({
        label: c.name,
        stroke: token(colourOf(c.of ?? i)),
        // Thin lines without dashes are drawn ten times as fast. Among a hundred curves, dashes would not help to
        // distinguish them.
        width: many || c.thin ? 1 : 1.8,
        alpha: many ? 0.75 : 1,
        dash: many ? undefined : dashes[i],
        spanGaps: true,
        auto: false,
        paths: (/** @type {any} */ u) => ({ stroke: pathOf(latest.current[i], u), fill: null, clip: null, band: null, gaps: null, flags: 1 }),
        points: { show: c.x.length < 3, size: 5 },
      })),
    ],
    hooks: { setCursor: [(/** @type {any} */ u) => showTip(u, tip.current, latest.current, x, time)] },
  };
}

/** Return the axes of a chart. A logarithmic one has a second axis, of faint lines between the labelled ones. @param {string} x @param {boolean} time @param {boolean} log */
function axesOf(x, time, log) {
  const font = `12px ${token("--font")}`;
  const line = { stroke: token("--line"), width: 1 };
  const axis = { stroke: token("--ink-faint"), grid: line, ticks: { show: false }, font };
  const across = { ...axis, size: 30, label: x || undefined, labelFont: font, labelSize: 18, labelGap: -4, ...(x === "batches" && { incrs: WHOLE_STEPS }) };
  /** @param {any} _ @param {(number | null)[]} ticks */
  const values = (_, ticks) => tickLabels(ticks);
  /** @param {any} _ @param {string[] | null} labels */
  const size = (_, labels) => AXIS_PX + widest(labels ?? [], font);
  if (!time && !x) Object.assign(across, { values });
  if (!log) return [across, { ...axis, values, size }];
  const splits = (/** @type {"major" | "minor"} */ kind) => (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ min, /** @type {number} */ max) => logTicks(min, max)[kind];
  const filter = (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks;
  // Lines of decades are stronger than the lines between them.
  const strong = { ...line, stroke: `${token("--line-strong")}80` };
  return [
    across,
    { ...axis, values, size, filter, splits: splits("major"), grid: { ...strong, filter } },
    { ...axis, scale: "y", size: 0, gap: 0, values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(() => ""), filter, splits: splits("minor"), grid: { ...line, filter } },
  ];
}

/** Return the width of the widest text in pixels. @param {string[]} texts @param {string} font */
function widest(texts, font) {
  pen ??= document.createElement("canvas").getContext("2d");
  if (!pen) return 0;
  pen.font = font;
  return Math.ceil(Math.max(0, ...texts.map((text) => /** @type {CanvasRenderingContext2D} */ (pen).measureText(text).width)));
}

/** Return a range with a margin around the limits. @param {any} Plot @param {import("./chart_scale.js").Limits | null} limits @param {boolean} log */
function around(Plot, limits, log) {
  if (!limits) return [null, null];
  if (!log) return Plot.rangeNum(...limits, 0.1, true);
  const [low, high] = limits.map(Math.log10);
  const margin = (high - low) * 0.06 || 0.3;
  return [10 ** (low - margin), 10 ** (high + margin)];
}
