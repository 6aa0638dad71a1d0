// Actions on workspaces and projects: rename, archive, move, delete.
import { post, send } from "../lib/api.js";
import { keeps, may } from "../lib/rights.js";
import { html, useState } from "../lib/view.js";
import { Line } from "../parts/fields.js";
import { Ask, AskDelete, attempt, Menu } from "../parts/overlay.js";
import { MoveTo } from "../parts/move_to.js";

/** @typedef {{ id: number, name: string, description?: string, archived: boolean, immutable: boolean, userId: number, workspaceId?: number, pinned?: boolean, projects?: any[] }} Thing a workspace or a project */

/** @param {Thing} of */
const isProject = (of) => of.workspaceId !== undefined;
/** @param {Thing} of */
const pathOf = (of) => `/api/v1/${isProject(of) ? "projects" : "workspaces"}/${of.id}`;

/** @param {{ of: Thing, reload: () => Promise<void> }} props */
export function Steering({ of, reload }) {
  const [open, setOpen] = useState("");
  const close = () => setOpen("");
  const [kind, place] = isProject(of) ? ["PROJECT", of.workspaceId] : ["WORKSPACE", of.id];
  const own = !of.immutable && keeps({ userId: of.userId, workspaceId: place });
  const edits = own && may(`UPDATE_${kind}`, place);
  const deletes = own && may(`DELETE_${kind}`, place);
  /** @param {string} verb @param {string} done @param {string} back */
  const turn = (verb, done, back) => attempt(() => post(`${pathOf(of)}/${verb}`), `${done} ${of.name}`, () => void turn(back, "Undone:", verb)).then(reload);
  return html`
    <${Menu} label=${`Actions on ${of.name}`} kind="plain" items=${[
      edits && { name: isProject(of) ? "Edit name and description" : "Rename", act: () => setOpen("edit") },
      !isProject(of) && (of.pinned ? { name: "Unpin", act: () => void turn("unpin", "Unpinned", "pin") } : { name: "Pin", act: () => void turn("pin", "Pinned", "unpin") }),
      edits && isProject(of) && { name: "Move to another workspace", act: () => setOpen("move") },
      edits && (of.archived ? { name: "Unarchive", act: () => void turn("unarchive", "Unarchived", "archive") } : { name: "Archive", act: () => void turn("archive", "Archived", "unarchive") }),
      deletes && { name: "Delete", danger: true, act: () => setOpen("delete") },
    ]} />
    ${open === "edit" && html`<${Edit} of=${of} onClose=${close} onDone=${reload} />`}
    ${open === "move" && html`<${MoveTo} name=${of.name} from=${of.workspaceId} right="CREATE_PROJECT" note="Its experiments move with it. The new workspace controls access to them." path=${`${pathOf(of)}/move`} body=${{ projectId: of.id }} onClose=${close} onDone=${reload} />`}
    ${open === "delete" && html`<${AskDelete} what=${of.name} path=${pathOf(of)} onDone=${reload} onClose=${close}>${isProject(of) ? "Permanently deletes its experiments with their metrics, logs and checkpoints." : "Permanently deletes its projects and experiments with their metrics, logs and checkpoints."}<//>`}
  `;
}

/** @param {{ of: Thing, onClose: () => void, onDone: () => Promise<void> }} props */
function Edit({ of, onClose, onDone }) {
  const [name, setName] = useState(of.name);
  const [description, setDescription] = useState(of.description ?? "");
  const act = async () => {
    await send("PATCH", pathOf(of), isProject(of) ? { name, description } : { name });
    await onDone();
  };
  return html`
    <${Ask} title=${`Edit ${of.name}`} act="Save" off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} />
      ${isProject(of) && html`<${Line} label="Description" value=${description} set=${setDescription} />`}
    <//>
  `;
}
