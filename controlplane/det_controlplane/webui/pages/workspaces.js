// Workspaces and their projects, where experiments are kept.
import { post, send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { keeps, made, may, mayDemand, rolesDecide } from "../lib/rights.js";
import { ask, link, place } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { withProjects } from "../lib/workspaces.js";
import { Button, Head, Loaded, Panel, Toggle } from "../parts/basic.js";
import { Line } from "../parts/fields.js";
import { MoveTo } from "../parts/move_experiments.js";
import { Ask, AskDelete, attempt, Menu } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";

const LIVE_MS = 30_000;

export function Page() {
  const archived = place.value.query.has("archived");
  const found = useLive((signal) => withProjects(archived, signal), [archived], LIVE_MS);
  const [making, setMaking] = useState(/** @type {any} */ (null));
  return html`
    <${Head} title="Workspaces" text="Projects group experiments; workspaces group projects and control access">
      <${Toggle} on=${archived} onClick=${() => ask({ archived: archived ? "" : "1" })}>Show archived<//>
      ${may("CREATE_WORKSPACE") && html`<${Button} kind="primary" icon="plus" onClick=${() => setMaking({})}>New workspace<//>`}
    <//>
    <div class="stack">
      <${Loaded} of=${found}>
        ${(/** @type {any[]} */ workspaces) =>
          [...workspaces].sort((a, b) => Number(b.pinned) - Number(a.pinned)).map(
            (w) => html`
              <${Panel} key=${w.id} title=${w.archived ? html`${w.name} <span class="label">archived</span>` : w.name} flush actions=${html`<${Actions} of=${w} make=${() => setMaking(w)} reload=${found.reload} />`}>
                ${w.errorMessage && html`<div class="notice amber"><p>Deletion failed: ${w.errorMessage}</p></div>`}
                ${w.projects.length ? html`<${Projects} workspace=${w} reload=${found.reload} />` : html`<p class="panel-body soft">No projects yet.</p>`}
              <//>
            `,
          )}
      <//>
    </div>
    ${making && html`<${New} workspace=${making.id ? making : null} onClose=${() => setMaking(null)} onDone=${found.reload} />`}
  `;
}

/** @param {{ of: any, make: () => void, reload: () => Promise<void> }} props */
const Actions = ({ of: w, make, reload }) => html`
  ${rolesDecide() && may("ASSIGN_ROLES", w.id) && html`<${Button} kind="plain" href=${link(`/admin/roles?in=${w.id}`)}>Roles<//>`}
  ${mayDemand(w.id) && html`<${Button} kind="plain" href=${link(`/admin/policies?in=${w.id}`)}>Policies<//>`}
  ${!w.immutable && may("CREATE_PROJECT", w.id) && html`<${Button} icon="plus" onClick=${make}>New project<//>`}
  <${Steering} of=${w} reload=${reload} />
`;

/** @param {{ workspace: any, reload: () => Promise<void> }} props */
const Projects = ({ workspace, reload }) => html`
  <${Table} label=${`Projects of ${workspace.name}`} total=${workspace.projects.length} row=${(/** @type {number} */ i) => workspace.projects[i]} columns=${[
    { name: "Project", main: true, cell: (/** @type {any} */ p) => html`<a href=${link(`/experiments?project=${p.id}`)}>${p.name}</a>${p.archived && html` <span class="label">archived</span>`}` },
    { name: "Description", wrap: true, cell: (/** @type {any} */ p) => html`<span class="soft">${p.description}</span>${p.errorMessage && html`<p>Deletion failed: ${p.errorMessage}</p>`}` },
    { name: "Experiments", right: true, cell: (/** @type {any} */ p) => html`${p.numExperiments}${p.numActiveExperiments ? html` <span class="soft">(${p.numActiveExperiments} running)</span>` : ""}` },
    { name: "Last started", right: true, cell: (/** @type {any} */ p) => html`<${Ago} at=${p.lastExperimentStartedAt} />` },
    { name: "", right: true, cell: (/** @type {any} */ p) => html`<${Steering} of=${p} reload=${reload} />` },
  ]} />
`;

/** @param {{ workspace: any, onClose: () => void, onDone: () => Promise<void> }} props a project of a workspace, or a workspace */
function New({ workspace, onClose, onDone }) {
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const act = async () => {
    if (workspace) await post(`/api/v1/workspaces/${workspace.id}/projects`, { name, description });
    else made((await post("/api/v1/workspaces", { name })).workspace.id);
    await onDone();
  };
  return html`
    <${Ask} title=${workspace ? `New project in ${workspace.name}` : "New workspace"} act="Create" off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} />
      ${workspace && html`<${Line} label="Description" value=${description} set=${setDescription} />`}
    <//>
  `;
}

/** @typedef {{ id: number, name: string, description?: string, archived: boolean, immutable: boolean, userId: number, workspaceId?: number, pinned?: boolean, projects?: any[] }} Thing a workspace or a project */

/** @param {Thing} of */
const isProject = (of) => of.workspaceId !== undefined;
/** @param {Thing} of */
const pathOf = (of) => `/api/v1/${isProject(of) ? "projects" : "workspaces"}/${of.id}`;

/** @param {{ of: Thing, reload: () => Promise<void> }} props */
function Steering({ of, reload }) {
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
