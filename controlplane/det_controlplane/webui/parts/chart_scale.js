// The scale of an axis of values: its range without outliers, its ticks, and curves as lines of pixels on it.
/** @typedef {{ x: number[], y: (number | null)[] }} Points in the order of x */
/** @typedef {[number, number]} Limits the least and the greatest shown value */
/** @typedef {{ log: boolean, ignores: boolean }} Scale `ignores` leaves outliers out */
/** @typedef {{ major: number[], minor: number[] }} Ticks */

// Values are outliers if they lie this many spans beyond the usual ones. On a linear scale, few curves and the points of
// one curve do not say reliably what is usual.
const [REACH, LONG_REACH] = [3, 20];
const FEW = 4; // curves
const LEAST_POINTS = 20; // of a curve that may have spikes
const MOST_DECADES = 8; // with a label each

/** Return the first index whose x is that much or more. @param {number[]} x in order @param {number} least */
export function indexOf(x, least) {
  let [from, to] = [0, x.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (x[middle] < least) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** @param {boolean} log */
const bendOf = (log) => (log ? Math.log10 : Number);

/** @param {Limits} limits @param {boolean} log @returns {Limits} */
const straight = (limits, log) => (log ? /** @type {Limits} */ (limits.map((v) => 10 ** v)) : limits);

/** Return limits that leave out no value with a place. @param {boolean} log @returns {Limits} */
const everything = (log) => [log ? Number.MIN_VALUE : -Infinity, Infinity];

/** Tell whether a scale has a place for a value. @param {any} value @param {boolean} log */
const hasPlace = (value, log) => typeof value === "number" && Number.isFinite(value) && (!log || value > 0);

/** Return the limits of a sorted list's usual values; `share` of them lie below the first and above the second. @param {number[]} sorted @param {number} share @returns {Limits} */
const quantiles = (sorted, share) => [sorted[Math.ceil(share * (sorted.length - 1))], sorted[Math.floor((1 - share) * (sorted.length - 1))]];

/** @type {{ log: WeakMap<object, Limits>, linear: WeakMap<object, Limits> }} */
const fences = { log: new WeakMap(), linear: new WeakMap() };

/** Return the limits beyond which single values of a curve are spikes. @param {Points} curve @param {boolean} log @returns {Limits} */
function fenceOf({ y }, log) {
  const kept = log ? fences.log : fences.linear;
  let fence = kept.get(y);
  if (!fence) {
    const values = y.filter((value) => hasPlace(value, log)).map((value) => bendOf(log)(/** @type {number} */ (value)));
    fence = everything(log);
    if (values.length >= LEAST_POINTS) {
      const [low, high] = quantiles(values.sort((a, b) => a - b), 0.05);
      const reach = (log ? REACH : LONG_REACH) * (high - low);
      if (reach) fence = straight([low - reach, high + reach], log);
    }
    kept.set(y, fence);
  }
  return fence;
}

/** Return the limits of a curve in a range of x, without values beyond a fence. Charts ask for them in each frame. @param {Points} curve @param {{ min: number, max: number }} range @param {Limits} fence @returns {Limits | null} */
function extentOf({ x, y }, { min, max }, [low, high]) {
  let [least, most] = [Infinity, -Infinity];
  for (let i = indexOf(x, min); i < x.length && x[i] <= max; i++) {
    const value = y[i];
    if (value === null || !(value >= low && value <= high) || !Number.isFinite(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return least <= most ? [least, most] : null;
}

/** Leave out curves that lie far beyond the usual ones. @param {Limits[]} extents @param {boolean} log @returns {Limits} */
function withoutFarCurves(extents, log) {
  const lows = extents.map(([low]) => low).sort((a, b) => a - b);
  const highs = extents.map(([, high]) => high).sort((a, b) => a - b);
  const high = quantiles(highs, 0.25)[1];
  // Of two curves, one may lie above the other's highest value.
  const low = [quantiles(lows, 0.25)[0], lows[Math.floor((lows.length - 1) / 4)]].find((v) => v <= high) ?? lows[0];
  const reach = (log || extents.length > FEW ? REACH : LONG_REACH) * (high - low || Math.abs(high) || 1);
  return [lows.find((v) => v >= low - reach) ?? low, highs.findLast((v) => v <= high + reach) ?? high];
}

/** Return the limits of curves in a range of x, or null if no value has a place. @param {Points[]} curves @param {{ min: number, max: number }} range @param {Scale} scale @returns {Limits | null} */
export function limitsOf(curves, range, { log, ignores }) {
  const extents = curves.map((c) => extentOf(c, range, ignores ? fenceOf(c, log) : everything(log))).filter((e) => e !== null);
  if (!extents.length) return ignores ? limitsOf(curves, range, { log, ignores: false }) : null;
  const every = /** @type {Limits} */ ([Math.min(...extents.map((e) => e[0])), Math.max(...extents.map((e) => e[1]))]);
  if (!ignores || extents.length < 2) return every;
  return straight(withoutFarCurves(extents.map((extent) => /** @type {Limits} */ (extent.map(bendOf(log)))), log), log);
}

/** Count the curves and points that meet a condition in a range of x. @param {Points[]} curves @param {{ min: number, max: number }} range @param {(value: number | null) => boolean} meets */
function count(curves, range, meets) {
  const counts = curves.map(({ x, y }) => {
    let points = 0;
    for (let i = indexOf(x, range.min); i < x.length && x[i] <= range.max; i++) if (meets(y[i])) points += 1;
    return points;
  });
  return { curves: counts.filter(Boolean).length, points: counts.reduce((a, b) => a + b, 0) };
}

/** Count the curves and points of a range of x that are not finite numbers. @param {Points[]} curves @param {{ min: number, max: number }} range */
export const notFiniteOf = (curves, range) => count(curves, range, (value) => value === null);

/** Count the curves and points of a range of x that a scale leaves out. @param {Points[]} curves @param {{ min: number, max: number }} range @param {Scale} scale */
export function outsideOf(curves, range, scale) {
  const [low, high] = limitsOf(curves, range, scale) ?? everything(scale.log);
  // Logarithms and powers are not exact.
  const slack = 1e-9 * Math.max(Math.abs(low), Math.abs(high));
  return count(curves, range, (value) => typeof value === "number" && (!hasPlace(value, scale.log) || value < low - slack || value > high + slack));
}

/** Return the limits of one value for each trial, or null if none has a place. @param {unknown[]} values @param {Scale} scale @returns {Limits | null} */
export function valueLimits(values, { log, ignores }) {
  const bent = values.filter((value) => hasPlace(value, log)).map((value) => bendOf(log)(/** @type {number} */ (value)));
  if (!bent.length) return null;
  const every = /** @type {Limits} */ ([Math.min(...bent), Math.max(...bent)]);
  return straight(ignores ? withoutFarCurves(bent.map((value) => [value, value]), log) : every, log);
}

/** Return about `most` round numbers within limits. @param {number} min @param {number} max @param {number} [most] @returns {number[]} */
export function evenTicks(min, max, most = 5) {
  if (!(max > min)) return [min];
  const rough = (max - min) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (/** @type {number} */ ([1, 2, 5, 10].find((n) => n * power >= rough)));
  const first = Math.ceil(min / step - 1e-9);
  return Array.from({ length: Math.floor(max / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Return the ticks of a logarithmic axis: decades with fine lines between them, or few numbers within a decade. @param {number} min @param {number} max @returns {Ticks} */
export function logTicks(min, max) {
  const [low, high] = [Math.log10(min), Math.log10(max)];
  if (high - low < 0.7) return { major: evenTicks(min, max, 6), minor: [] };
  const labelled = high - low < 3 ? [1, 2, 5] : [1];
  const every = Math.ceil((high - low) / MOST_DECADES);
  const ticks = /** @type {Ticks} */ ({ major: [], minor: [] });
  for (let decade = Math.floor(low); decade <= high; decade++) {
    for (let n = 1; n < 10; n++) {
      const value = Number(`${n}e${decade}`);
      if (value < min * (1 - 1e-9) || value > max * (1 + 1e-9)) continue;
      if (labelled.includes(n) && decade % every === 0) ticks.major.push(value);
      else if (n === 1 || every === 1) ticks.minor.push(value);
    }
  }
  return ticks;
}

/** Write a number at a tick, as short as it can be. @param {number} value @param {number} [digits] */
export function tickLabel(value, digits = 5) {
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(digits));
  if (size && (size < 1e-3 || size >= 1e6)) return rounded.toExponential().replace("e+", "e");
  return rounded.toLocaleString("en", { maximumFractionDigits: 20, useGrouping: Number.isInteger(rounded) });
}

/** Write the numbers at ticks with as many digits as distinguish them. @param {(number | null)[]} values @returns {string[]} */
export function tickLabels(values) {
  const numbers = values.filter((value) => value !== null);
  const digits = [5, 7, 9, 12].find((d) => new Set(numbers.map((value) => tickLabel(value, d))).size === new Set(numbers).size) ?? 12;
  return values.map((value) => (value === null ? "" : tickLabel(value, digits)));
}

/** Return the line of a curve as far as it is in sight, with the points before and behind that it comes from and goes to. @param {Points | undefined} curve @param {any} plot */
export function pathOf(curve, plot) {
  const path = new Path2D();
  if (!curve) return path;
  const { x: across, y: up } = plot.scales;
  const { left, top, width, height } = plot.bbox;
  const log = up.distr === 3;
  const [low, high] = log ? [Math.log10(up.min), Math.log10(up.max)] : [up.min, up.max];
  const wide = width / (across.max - across.min);
  const tall = height / (high - low);
  const { x, y } = curve;
  const end = Math.min(indexOf(x, across.max) + 1, x.length);
  for (let i = Math.max(0, indexOf(x, across.min) - 1); i < end; i++) {
    const value = y[i];
    if (value === null || !Number.isFinite(value)) continue;
    // Values without a logarithm are drawn below the chart.
    const at = log ? Math.log10(value > 0 ? value : up.min / 10) : value;
    path.lineTo(left + (x[i] - across.min) * wide, top + (high - at) * tall);
  }
  return path;
}
