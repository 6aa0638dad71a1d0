// Numbers, times and names as people read them.

/** @param {unknown} value */
export function metric(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "–" : String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : String(Number(value.toPrecision(5)));
}

/** Keep a number and its unit in one line. @param {number} count @param {string} of */
const unit = (count, of) => `${count}\u00a0${of}`;

/** @param {number} seconds */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return unit(s, "s");
  if (s < 3600) return `${unit(Math.floor(s / 60), "min")} ${s % 60 ? unit(s % 60, "s") : ""}`.trim();
  if (s < 86400) return `${unit(Math.floor(s / 3600), "h")} ${unit(Math.floor((s % 3600) / 60), "min")}`;
  return `${unit(Math.floor(s / 86400), "d")} ${unit(Math.floor((s % 86400) / 3600), "h")}`;
}

/** @param {string | null | undefined} from @param {string | null | undefined} to */
export function span(from, to) {
  if (!from) return "–";
  return duration(((to ? Date.parse(to) : Date.now()) - Date.parse(from)) / 1000);
}

/** @param {string | null | undefined} time */
export function ago(time) {
  if (!time) return "–";
  const s = (Date.now() - Date.parse(time)) / 1000;
  if (s < 45) return "just now";
  if (s < 3600) return `${unit(Math.max(1, Math.round(s / 60)), "min")} ago`;
  if (s < 86400) return `${unit(Math.round(s / 3600), "h")} ago`;
  if (s < 86400 * 30) return `${unit(Math.round(s / 86400), "d")} ago`;
  return day(time);
}

/** @param {string} time */
export const day = (time) => new Date(time).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** @param {string | null | undefined} time */
export function moment(time) {
  if (!time) return "–";
  const at = new Date(time);
  return `${day(time)}, ${at.toLocaleTimeString("en-GB")}`;
}

/** Write a time as fields of forms want it, as it is where the reader is; addresses have it with its zone. @param {string} time */
export function localOf(time) {
  const at = Date.parse(time);
  if (Number.isNaN(at)) return "";
  const text = new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  return text.replace(/:00$/, "");
}

/** Write a time of a field as addresses have it. @param {string} local */
export const zonedOf = (local) => (Number.isNaN(Date.parse(local)) ? "" : new Date(local).toISOString());

/** Read labels that somebody wrote one after the other. @param {string} text */
export const labelsOf = (text) => text.split(",").map((label) => label.trim()).filter(Boolean);

/** @param {string | number} bytes */
export function size(bytes) {
  let left = Number(bytes);
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (left < 1000 || unit === "TB") return `${left < 10 && unit !== "B" ? left.toFixed(1) : Math.round(left)} ${unit}`;
    left /= 1000;
  }
  return "";
}

/** @param {string | number | null | undefined} usd */
export function money(usd) {
  const amount = Number(usd ?? 0);
  if (!amount) return "$0";
  return amount < 0.01 ? "< $0.01" : `$${amount.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** @param {string} state STATE_COMPLETED */
export function stateName(state) {
  const name = state.replace(/^(JOB_)?STATE_/, "").replace(/^STOPPING_.*/, "STOPPING").replaceAll("_", " ").toLowerCase();
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** @param {string} state @returns {"blue" | "green" | "amber" | "red" | ""} */
export function stateColour(state) {
  const name = state.replace(/^(JOB_)?STATE_/, "");
  if (["RUNNING", "ACTIVE", "STARTING", "PULLING", "SCHEDULED", "REQUESTED", "LAUNCHED"].includes(name)) return "blue";
  if (name === "COMPLETED" || name === "REGISTERED") return "green";
  if (["PAUSED", "DRAINING", "TERMINATING", "DELETING"].includes(name) || name.startsWith("STOPPING") || name === "QUEUED") return "amber";
  if (name === "ERROR" || name.includes("FAILED")) return "red";
  return "";
}

/** @param {string} state */
export const ended = (state) => /COMPLETED|CANCELED|ERROR|DELETED|DELETE_FAILED/.test(state) && !state.includes("STOPPING");
