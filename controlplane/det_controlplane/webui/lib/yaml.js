// Write values as readable YAML. The cluster reads it.

const PLAIN = /^[A-Za-z_][\w./+=-]*( [\w./+=-]+)*$/;
const WORDS = /^(true|false|yes|no|on|off|null|y|n)$/i;
// Lines of a block are written as they are; other special texts are quoted.
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

const scalar = (/** @type {any} */ value) => value === null || typeof value !== "object";

/** Write hyperparameters that are no longer searched. @param {Record<string, any>} hparams @returns {Record<string, any>} */
export const fixed = (hparams) =>
  Object.fromEntries(Object.entries(hparams).map(([name, value]) => [name, scalar(value) ? value : Array.isArray(value) ? { type: "const", val: value } : fixed(value)]));

/**
 * Replace parts of a configuration as people wrote it, and keep everything else: its order, its comments.
 * @param {string} text in block style @param {Record<string, any>} parts by their keys at the top
 */
export function withParts(text, parts) {
  let lines = text.split("\n");
  for (const [key, value] of Object.entries(parts)) {
    const from = lines.findIndex((line) => new RegExp(`^["']?${key}["']?\\s*:`).test(line));
    const written = yaml({ [key]: value }).trimEnd().split("\n");
    if (from < 0) {
      while (lines.length && !lines[lines.length - 1].trim()) lines.pop();
      lines.push(...written, "");
      continue;
    }
    // The lines of a key are indented or form a list. Blank lines and comments before the next key belong to that key.
    let to = from + 1;
    while (to < lines.length && (/^([ \t]|-[ \t]|-$)/.test(lines[to]) || !lines[to].trim())) to++;
    while (to > from + 1 && !lines[to - 1].trim()) to--;
    lines = [...lines.slice(0, from), ...written, ...lines.slice(to)];
  }
  return lines.join("\n");
}

/** Tell whether a configuration is written in a way that parts of it can be replaced. @param {string} text */
export const isBlock = (text) => !!text.trim() && !/^\s*[{[]/.test(text) && !/^\t/m.test(text);
