// Moving a project or model to another workspace.
import { post } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { may } from "../lib/rights.js";
import { html, useState } from "../lib/view.js";
import { workspaces } from "../lib/workspaces.js";
import { Choice } from "./fields.js";
import { Ask } from "./overlay.js";

/** @param {{ name: string, from: number | undefined, right: string, note: string, path: string, body: object, onClose: () => void, onDone: () => Promise<void> }} props `right` is asked of the target */
export function MoveTo({ name, from, right, note, path, body, onClose, onDone }) {
  const found = useLive(workspaces, []);
  const offered = (found.data ?? []).filter((/** @type {any} */ w) => w.id !== from && !(w.immutable && right === "CREATE_PROJECT") && may(right, w.id));
  const [to, setTo] = useState("");
  const act = async () => {
    await post(path, { ...body, destinationWorkspaceId: Number(to) });
    await onDone();
  };
  return html`
    <${Ask} title=${`Move ${name}`} act="Move" off=${!to} onAct=${act} onClose=${onClose}>
      <p class="soft">${note}</p>
      <${Choice} label="Workspace" value=${to} set=${setTo} of=${[["", "Select a workspace"], ...offered.map((/** @type {any} */ w) => [String(w.id), w.name])]} />
    <//>
  `;
}
