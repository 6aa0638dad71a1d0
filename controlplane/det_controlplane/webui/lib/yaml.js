// Values as YAML that people read. What they write is read by the cluster, as everywhere.

const PLAIN = /^[A-Za-z_][\w./+=-]*( [\w./+=-]+)*$/;
const WORDS = /^(true|false|yes|no|on|off|null|y|n)$/i;
// Lines of a block keep what stands in them; anything else odd is quoted.
const BLOCK = /^[^\s\u0000-\u0009\u000b-\u001f\u007f-\u009f\ufeff\u2028\u2029][^\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufeff\u2028\u2029]*$/;

// YAML takes some of these for the end of a line.
const escaped = (/** @type {string} */ c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** @param {string} text */
const word = (text) => (PLAIN.test(text) && !WORDS.test(text) ? text : JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, escaped));

/** @param {any} value @param {string} margin @returns {string} what follows a key or a dash, with what goes before it */
function after(value, margin) {
  if (typeof value === "string" && value.includes("\n") && BLOCK.test(value) && !value.endsWith("\n\n")) {
    const ends = value.endsWith("\n");
    const lines = (ends ? value.slice(0, -1) : value).split("\n");
    return ` |${ends ? "" : "-"}\n${lines.map((line) => (line ? margin + line : "")).join("\n")}`;
  }
  if (typeof value === "string") return ` ${word(value)}`;
  if (value === null || typeof value !== "object") return ` ${value}`;
  const empty = Array.isArray(value) ? "[]" : "{}";
  return Object.keys(value).length ? `\n${block(value, margin)}` : ` ${empty}`;
}

/** @param {any} value @param {string} margin @returns {string} */
function block(value, margin) {
  if (Array.isArray(value)) return value.map((item) => `${margin}-${inline(item, `${margin}  `)}`).join("\n");
  return Object.entries(value)
    .map(([key, inner]) => `${margin}${word(key)}:${after(inner, `${margin}  `)}`)
    .join("\n");
}

/** An object begins beside its dash. @param {any} item @param {string} margin */
function inline(item, margin) {
  const filled = item !== null && typeof item === "object" && Object.keys(item).length;
  return filled ? ` ${block(item, margin).slice(margin.length)}` : after(item, margin);
}

/** @param {Record<string, any>} value */
export const yaml = (value) => (Object.keys(value).length ? `${block(value, "")}\n` : "");
