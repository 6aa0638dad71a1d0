// Notes as Markdown: headings, lists, code, emphasis and links. Text never becomes markup, because all parts are elements.
import { html } from "../lib/view.js";

const FENCE = /^\s*```/;
const ITEM = /^\s*([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
// Code comes first, because text within it has no other parts.
const PARTS = /`([^`]+)`|\[([^\]\n]+)\]\(([^\s()]+)\)|\*\*(.+?)\*\*|(?<![\w*])\*([^\s*](?:.*?[^\s*])?)\*(?![\w*])|(?<!\w)_([^\s_](?:.*?[^\s_])?)_(?!\w)|(https?:\/\/[^\s<>"']+[\w/])/;

/** Return the address of a link if it is safe: other schemes could run scripts. @param {string} to */
const safe = (to) => (/^(https?:\/\/|mailto:|\/(?!\/)|#)/i.test(to) ? to : "");

/** @param {string} to @param {any} name */
const anchor = (to, name) => (/^https?:/i.test(to) ? html`<a href=${to} target="_blank" rel="noreferrer">${name}</a>` : html`<a href=${to}>${name}</a>`);

/** Return a line with its parts as elements. @param {string} text @returns {any[]} */
function inline(text) {
  const found = PARTS.exec(text);
  if (!found) return [text];
  const [whole, code, name, to, strong, star, line, address] = found;
  const before = text.slice(0, found.index);
  const after = text.slice(found.index + whole.length);
  let part;
  if (code !== undefined) part = html`<code>${code}</code>`;
  else if (name !== undefined) part = safe(to) ? anchor(to, inline(name)) : whole;
  else if (strong !== undefined) part = html`<strong>${inline(strong)}</strong>`;
  else if (address !== undefined) part = anchor(address, address);
  else part = html`<em>${inline(star ?? line)}</em>`;
  return [before, part, ...inline(after)];
}

/** Take lines from the beginning while they fit. @param {string[]} lines @param {(line: string) => boolean} fits */
function take(lines, fits) {
  const end = lines.findIndex((line) => !fits(line));
  return lines.splice(0, end < 0 ? lines.length : end);
}

/** Remove the next block from the lines and return it as an element. @param {string[]} lines */
function block(lines) {
  const [first] = lines;
  if (FENCE.test(first)) {
    lines.shift();
    const code = take(lines, (line) => !FENCE.test(line));
    lines.shift();
    return html`<pre>${code.join("\n")}</pre>`;
  }
  const heading = HEADING.exec(first);
  if (heading) {
    lines.shift();
    // The page and its panel have the first two levels. Screen readers expect that no level is left out.
    return html`<h3 class=${heading[1].length === 1 ? "first" : ""}>${inline(heading[2])}</h3>`;
  }
  const item = ITEM.exec(first);
  if (item) {
    const items = take(lines, (line) => ITEM.test(line)).map((line) => html`<li>${inline(/** @type {RegExpExecArray} */ (ITEM.exec(line))[2])}</li>`);
    return /\d/.test(item[1]) ? html`<ol start=${parseInt(item[1])}>${items}</ol>` : html`<ul>${items}</ul>`;
  }
  const text = take(lines, (line) => !!line.trim() && !FENCE.test(line) && !HEADING.test(line) && !ITEM.test(line));
  return html`<p>${text.flatMap((line, i) => [i ? html`<br />` : null, ...inline(line)])}</p>`;
}

/** @param {{ text: string }} props */
export function Markdown({ text }) {
  const lines = text.split(/\r?\n/);
  const blocks = [];
  while (lines.length) {
    if (lines[0].trim()) blocks.push(block(lines));
    else lines.shift();
  }
  return html`<div class="markdown">${blocks}</div>`;
}
