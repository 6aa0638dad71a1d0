// Moving experiments and projects: a dialog that picks a project or a workspace.
import { post } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { keeps, may, rolesDecide } from "../lib/rights.js";
import { html, useState } from "../lib/view.js";
import { everyProject, placeOf, workspaces } from "../lib/workspaces.js";
import { Loaded } from "./basic.js";
import { Choice } from "./fields.js";
import { Ask } from "./overlay.js";

const ONLY_OWNERS = "Only the owner of an experiment and workspace administrators can move it to another workspace.";

/**
 * Ask where `of` shall go, of which that is true for all: they are not there yet, and other workspaces take only what one may take away.
 * @param {{ title: string, of: any[], onMove: (project: any) => Promise<unknown>, onClose: () => void, children?: any }} props
 */
export function MoveExperiments({ title, of, onMove, onClose, children }) {
  const projects = useLive(everyProject, []);
  const [to, setTo] = useState("");
  const others = (projects.data ?? []).filter((/** @type {any} */ p) => of.some((e) => e.projectId !== p.id) && may("CREATE_EXPERIMENT", p.workspaceId));
  const offered = others.filter((/** @type {any} */ p) => of.every((e) => e.workspaceId === p.workspaceId || !rolesDecide() || keeps(e)));
  return html`
    <${Ask} title=${title} act="Move" off=${!to} onAct=${() => onMove(offered.find((/** @type {any} */ p) => String(p.id) === to))} onClose=${onClose}>
      ${children}
      <${Loaded} of=${projects} lines=${1}>
        ${() =>
          offered.length
            ? html`
                <${Choice} label="Project" value=${to} set=${setTo} of=${[["", "Select a project"], ...offered.map((/** @type {any} */ p) => [String(p.id), placeOf(p)])]} />
                ${offered.length < others.length && html`<p class="soft">${ONLY_OWNERS}</p>`}
              `
            : html`<p class="soft">${others.length ? ONLY_OWNERS : "There are no other projects that you can add experiments to. Create one on the Workspaces page."}</p>`}
      <//>
    <//>
  `;
}

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
