// Workspaces and their projects, where experiments are kept.
import { post } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { made, may, mayDemand, rolesDecide } from "../lib/rights.js";
import { ask, link, place } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { withProjects } from "../lib/workspaces.js";
import { Button, Head, Loaded, Panel, Toggle } from "../parts/basic.js";
import { Line } from "../parts/fields.js";
import { Ask } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";
import { Steering } from "./workspaces_steering.js";

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
