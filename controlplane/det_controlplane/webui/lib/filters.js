// Conditions on any column of a table, also in groups; they live in the address, so a view can be kept and sent.
import { localOf, stateName } from "./format.js";

/**
 * @typedef {{ column: string, location: string, type: string, operator: string, value: string }} Condition
 * @typedef {{ join: "and" | "or", of: Node[] }} Group
 * @typedef {Condition | Group} Node
 */

/** @type {[string, string, string, string[]][]} operator, words, sign in front of a value, types of columns */
const OPERATORS = [
  ["=", "is", "=", ["TEXT", "NUMBER"]],
  ["!=", "is not", "≠", ["TEXT", "NUMBER"]],
  ["contains", "contains", "contains", ["TEXT", "ARRAY"]],
  ["notContains", "does not contain", "does not contain", ["TEXT", "ARRAY"]],
  ["<", "is less than", "<", ["NUMBER"]],
  ["<=", "is at most", "≤", ["NUMBER"]],
  [">", "is more than", ">", ["NUMBER"]],
  [">=", "is at least", "≥", ["NUMBER"]],
  ["<", "is before", "before", ["DATE"]],
  [">", "is after", "after", ["DATE"]],
  ["isEmpty", "is empty", "is empty", ["TEXT", "NUMBER", "DATE", "ARRAY"]],
  ["notEmpty", "is not empty", "is not empty", ["TEXT", "NUMBER", "DATE", "ARRAY"]],
];

const DEEPEST = 4;

/** @param {string} type COLUMN_TYPE_NUMBER */
export const kindOf = (type) => type.replace("COLUMN_TYPE_", "").replace("UNSPECIFIED", "") || "TEXT";

/** Return what can be asked of a column. @param {string} type @returns {[string, string][]} operators with their words */
export const operatorsOf = (type) => OPERATORS.filter(([, , , types]) => types.includes(kindOf(type))).map(([o, words, sign]) => [o, /^[^\w\s]$/.test(sign) ? `${words} (${sign})` : words]);

/** @param {Node} node @returns {node is Group} */
export const isGroup = (node) => "of" in node;

/** @param {string} operator */
export const needsValue = (operator) => !/Empty$/.test(operator);

/** Tell whether a condition says all that it must. @param {Condition} c */
export function isWhole(c) {
  if (!operatorsOf(c.type).some(([o]) => o === c.operator)) return false;
  if (!needsValue(c.operator)) return true;
  if (kindOf(c.type) === "DATE") return !Number.isNaN(Date.parse(c.value));
  return String(c.value).trim() !== "" && (kindOf(c.type) !== "NUMBER" || Number.isFinite(Number(c.value)));
}

/** @param {Node} node @returns {boolean} */
export const isReady = (node) => (isGroup(node) ? node.of.every(isReady) : isWhole(node));

/** Count the conditions below a node. @param {Node} node @returns {number} */
export const sizeOf = (node) => (isGroup(node) ? node.of.reduce((sum, n) => sum + sizeOf(n), 0) : 1);

/** Leave out groups that ask nothing. @param {Group} group @returns {Group} */
export const pruned = (group) => ({ ...group, of: group.of.map((n) => (isGroup(n) ? pruned(n) : n)).filter(sizeOf) });

/** Read the conditions of an address; what is none, as in a link that was cut, is left out and counted. @param {URLSearchParams} query @returns {{ group: Group, dropped: number }} */
export function filterOf(query) {
  let dropped = 0;
  /** @param {any} node @param {number} depth @returns {Node[]} none where it is not understood */
  const read = (node, depth) => {
    const of = Array.isArray(node) ? node : (node?.any ?? node?.all);
    if (Array.isArray(of) && depth < DEEPEST) {
      const found = of.flatMap((inner) => read(inner, depth + 1));
      return found.length ? [{ join: node.any ? "or" : "and", of: found }] : [];
    }
    const named = ["column", "location", "type", "operator"].every((name) => typeof node?.[name] === "string");
    if (named && ["string", "number", "undefined"].includes(typeof node.value) && isWhole(node)) return [{ ...node, value: String(node.value ?? "") }];
    dropped += 1;
    return [];
  };
  const [root] = read(parsed(query.get("filter")), 0);
  const group = root && isGroup(root) ? root : { join: /** @type {const} */ ("and"), of: root ? [root] : [] };
  return { group, dropped };
}

/** @param {string | null} text @returns {any} */
function parsed(text) {
  try {
    return JSON.parse(text || "[]");
  } catch {
    return null;
  }
}

/** Write a filter as an address has it; the empty one is no text. @param {Group} group */
export const textOf = (group) => (sizeOf(group) ? JSON.stringify(plain(group)) : "");

/** @param {Node} node @returns {any} */
function plain(node) {
  if (!isGroup(node)) return node;
  const of = node.of.map(plain);
  return node.join === "or" ? { any: of } : of;
}

/** @param {string} column @param {string} operator @param {unknown} value @param {string} [location] @param {string} [type] */
export const field = (column, operator, value, location = "LOCATION_TYPE_EXPERIMENT", type = "COLUMN_TYPE_TEXT") => ({
  kind: "field", columnName: column, location, operator, type, value,
});

/** Write a filter as the API reads it. @param {Node} node @returns {any} */
export function asked(node) {
  if (isGroup(node)) return { kind: "group", conjunction: node.join, children: node.of.map(asked) };
  const kind = kindOf(node.type);
  const value = !needsValue(node.operator) ? null : kind === "NUMBER" ? Number(node.value) : kind === "DATE" ? new Date(node.value).toISOString() : node.value;
  return field(node.column, node.operator, value, node.location, node.type);
}

/** @param {Condition} c */
function valueOf(c) {
  if (kindOf(c.type) === "DATE") return localOf(c.value).replace("T", " ");
  return c.column === "state" ? stateName(c.value) : c.value;
}

/** Say a filter in words. @param {Node} node @param {(column: string) => string} nameOf @param {boolean} [inner] @returns {string} */
export function wordsOf(node, nameOf, inner = false) {
  if (!isGroup(node)) {
    const sign = OPERATORS.find(([o, , , types]) => o === node.operator && types.includes(kindOf(node.type)))?.[2] ?? node.operator;
    return [nameOf(node.column), sign, needsValue(node.operator) ? valueOf(node) : ""].filter(Boolean).join(" ");
  }
  const words = node.of.map((n) => wordsOf(n, nameOf, true)).join(` ${node.join} `);
  return inner && node.of.length > 1 ? `(${words})` : words;
}
