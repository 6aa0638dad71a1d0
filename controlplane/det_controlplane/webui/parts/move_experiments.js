// Moving experiments to another project.
import { useLive } from "../lib/live.js";
import { keeps, may, rolesDecide } from "../lib/rights.js";
import { html, useState } from "../lib/view.js";
import { everyProject, placeOf } from "../lib/workspaces.js";
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
