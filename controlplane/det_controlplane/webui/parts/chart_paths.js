// Curves as lines of pixels, from their own points: the table that uPlot draws from has a place for each point of all of them.

/** @typedef {{ x: number[], y: (number | null)[] }} Points in the order of x */

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
