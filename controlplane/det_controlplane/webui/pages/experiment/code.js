// The code that an experiment trains with, file by file.
import { get, post } from "../../lib/api.js";
import { size } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { ask, place } from "../../lib/router.js";
import { html } from "../../lib/view.js";
import { Empty, Loaded, Panel } from "../../parts/basic.js";

/** @param {any[]} files @returns {any[]} */
const leaves = (files) => files.flatMap((f) => (f.isDir ? leaves(f.files) : [f]));

/** @param {string} packed base64 */
function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  if (bytes.subarray(0, 8000).includes(0)) return null;
  return new TextDecoder().decode(bytes);
}

/** @param {{ experiment: any }} props */
export function Code({ experiment }) {
  const tree = useLive(async (signal) => leaves((await get(`/api/v1/experiments/${experiment.id}/file_tree`, {}, { signal })).files), [experiment.id]);
  return html`<${Loaded} of=${tree}>${(/** @type {any[]} */ files) => (files.length ? html`<${Files} experiment=${experiment} files=${files} />` : html`<div class="panel"><${Empty} title="No code"><p>This experiment was created without a model definition.</p><//></div>`)}<//>`;
}

/** @param {{ experiment: any, files: any[] }} props */
function Files({ experiment, files }) {
  const asked = place.value.query.get("file");
  const chosen = files.find((f) => f.path === asked) ?? files.find((f) => f.path.endsWith(".py")) ?? files[0];
  const content = useLive(async () => unpacked((await post(`/api/v1/experiments/${experiment.id}/file`, { path: chosen.path })).file), [experiment.id, chosen.path]);
  return html`
    <div class="code-view">
      <nav class="panel nav files-nav" aria-label="Files">
        ${files.map((f) => html`<a href=${`?file=${encodeURIComponent(f.path)}`} aria-current=${f === chosen ? "page" : undefined} onClick=${(/** @type {Event} */ e) => (e.preventDefault(), ask({ file: f.path }))}><span class="cut grow">${f.path}</span><span class="faint small">${size(f.contentLength)}</span></a>`)}
      </nav>
      <${Panel} title=${html`<code>${chosen.path}</code>`} flush>
        <${Loaded} of=${content}>${(/** @type {string | null} */ text) => (text === null ? html`<${Empty} title="Not a text"><p>This file holds bytes that are no text.</p><//>` : html`<${Source} text=${text} />`)}<//>
      <//>
    </div>
  `;
}

/** @param {{ text: string }} props */
export const Source = ({ text }) => html`
  <pre class="source" tabindex="0">${text.replace(/\n$/, "").split("\n").map((line) => html`<span class="source-line">${`${line}\n`}</span>`)}</pre>
`;
