// The code that an experiment trains with, file by file.
import { get, post } from "../../lib/api.js";
import { counted, size } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { ask, place } from "../../lib/router.js";
import { html } from "../../lib/view.js";
import { Button, Empty, Loaded, Panel } from "../../parts/basic.js";

const OPEN = 30;

/** @param {any[]} files @returns {any[]} */
const leaves = (files) => files.flatMap((f) => (f.isDir ? leaves(f.files) : [f]));

/** Folders first, then files. @param {any[]} files @returns {any[]} */
const sorted = (files) => [...files.filter((f) => f.isDir), ...files.filter((f) => !f.isDir)];

/** @param {string} packed base64 */
function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  if (bytes.subarray(0, 8000).includes(0)) return null;
  return new TextDecoder().decode(bytes);
}

/** @param {{ experiment: any }} props */
export function Code({ experiment }) {
  const tree = useLive(async (signal) => (await get(`/api/v1/experiments/${experiment.id}/file_tree`, {}, { signal })).files, [experiment.id]);
  return html`<${Loaded} of=${tree}>${(/** @type {any[]} */ files) => (leaves(files).length ? html`<${Files} experiment=${experiment} tree=${files} />` : html`<div class="panel"><${Empty} title="No code"><p>This experiment was created without a model definition.</p><//></div>`)}<//>`;
}

/** @param {{ experiment: any, tree: any[] }} props */
function Files({ experiment, tree }) {
  const asked = place.value.query.get("file");
  const files = leaves(tree);
  const words = String(experiment.config.entrypoint ?? "").split(/[\s:,]+/);
  const chosen = files.find((f) => f.path === asked) ?? files.find((f) => words.some((w) => f.path === w || f.path === `${w}.py`)) ?? files.find((f) => f.path.endsWith(".py")) ?? files[0];
  const content = useLive(async () => unpacked((await post(`/api/v1/experiments/${experiment.id}/file`, { path: chosen.path })).file), [experiment.id, chosen.path]);
  const base = `/experiments/${experiment.id}`;
  const download = html`<${Button} href=${`${base}/file/download?path=${encodeURIComponent(chosen.path)}`} download>Download<//>`;
  return html`
    <div class="code-view">
      <nav class="panel files-nav" aria-label="Files">
        <div class="nav"><${Tree} files=${tree} chosen=${chosen} /></div>
        <div class="row"><${Button} href=${`${base}/model_def`} download>Download all<//><span class="soft small">${counted(files.length, "file")}, ${size(files.reduce((sum, f) => sum + Number(f.contentLength), 0))}</span></div>
      </nav>
      <${Panel} title=${html`<code>${chosen.path}</code>`} actions=${download} flush>
        <${Loaded} of=${content}>${(/** @type {string | null} */ text) => (text === null ? html`<${Empty} title="Binary file"><p>This file cannot be displayed as text. Download it instead.</p><//>` : html`<${Source} text=${text} />`)}<//>
      <//>
    </div>
  `;
}

/** @param {{ files: any[], chosen: any }} props folders are open where the chosen file is, or little is in them */
const Tree = ({ files, chosen }) => html`
  <ul class="tree">
    ${sorted(files).map((f) =>
      f.isDir
        ? html`<li><details open=${files.length < OPEN || chosen.path.startsWith(`${f.path}/`)}><summary>${f.name}</summary><${Tree} files=${f.files} chosen=${chosen} /></details></li>`
        : html`<li><a href=${`?file=${encodeURIComponent(f.path)}`} aria-current=${f === chosen ? "page" : undefined} onClick=${(/** @type {Event} */ e) => (e.preventDefault(), ask({ file: f.path }))}><span class="cut grow">${f.name}</span><span class="faint small">${size(f.contentLength)}</span></a></li>`,
    )}
  </ul>
`;

/** @param {{ text: string }} props */
export const Source = ({ text }) => html`
  <pre class="source" tabindex="0">${text.replace(/\n$/, "").split("\n").map((line) => html`<span class="source-line">${`${line}\n`}</span>`)}</pre>
`;
