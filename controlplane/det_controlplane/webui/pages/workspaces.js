// Workspaces and their projects, where experiments are kept.
import { get, post } from "../lib/api.js";
import { ago, counted } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { may, rolesDecide } from "../lib/rights.js";
import { link } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { Button, Field, Head, Loaded, Panel } from "../parts/basic.js";
import { Ask } from "../parts/overlay.js";
import { Table } from "../parts/table.js";

/** @param {AbortSignal} signal */
async function every(signal) {
  const { workspaces } = await get("/api/v1/workspaces", { limit: -1, archived: false, sortBy: "SORT_BY_NAME" }, { signal });
  return Promise.all(
    workspaces.map(async (/** @type {any} */ w) => ({ ...w, projects: (await get(`/api/v1/workspaces/${w.id}/projects`, { limit: -1, archived: false }, { signal })).projects })),
  );
}

export function Page() {
  const found = useLive(every, [], 15_000);
  const [making, setMaking] = useState(/** @type {any} */ (null));
  return html`
    <${Head} title="Workspaces" text="Projects keep experiments together; workspaces keep projects and who may see them">
      ${may("CREATE_WORKSPACE") && html`<${Button} kind="primary" icon="plus" onClick=${() => setMaking({})}>New workspace<//>`}
    <//>
    <div class="stack">
      <${Loaded} of=${found}>
        ${(/** @type {any[]} */ workspaces) =>
          workspaces.map(
            (w) => html`
              <${Panel} key=${w.id} title=${w.name} flush actions=${html`<${Actions} of=${w} make=${() => setMaking(w)} />`}>
                ${w.projects.length ? html`<${Projects} workspace=${w} />` : html`<p class="panel-body soft">No projects yet.</p>`}
              <//>
            `,
          )}
      <//>
    </div>
    ${making && html`<${New} workspace=${making.id ? making : null} onClose=${() => setMaking(null)} onDone=${found.reload} />`}
  `;
}

/** @param {{ of: any, make: () => void }} props */
const Actions = ({ of: w, make }) => html`
  ${rolesDecide() && may("ASSIGN_ROLES", w.id) && html`<${Button} kind="plain" href=${link(`/admin/roles?in=${w.id}`)}>Roles<//>`}
  ${!w.immutable && may("CREATE_PROJECT", w.id) && html`<${Button} icon="plus" onClick=${make}>New project<//>`}
`;

/** @param {{ workspace: any }} props */
const Projects = ({ workspace }) => html`
  <${Table} label=${`Projects of ${workspace.name}`} total=${workspace.projects.length} row=${(/** @type {number} */ i) => workspace.projects[i]} columns=${[
    { name: "Project", main: true, cell: (/** @type {any} */ p) => html`<a href=${link(`/experiments?project=${p.id}`)}>${p.name}</a>` },
    { name: "Description", wrap: true, cell: (/** @type {any} */ p) => html`<span class="soft">${p.description}</span>` },
    { name: "Experiments", right: true, cell: (/** @type {any} */ p) => html`${p.numExperiments}${p.numActiveExperiments ? html` <span class="soft">(${counted(p.numActiveExperiments, "runs", "run")})</span>` : ""}` },
    { name: "Last start", right: true, cell: (/** @type {any} */ p) => ago(p.lastExperimentStartedAt) },
  ]} />
`;

/** @param {{ workspace: any, onClose: () => void, onDone: () => Promise<void> }} props a project of a workspace, or a workspace */
function New({ workspace, onClose, onDone }) {
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const act = async () => {
    if (workspace) await post(`/api/v1/workspaces/${workspace.id}/projects`, { name, description });
    else await post("/api/v1/workspaces", { name });
    await onDone();
  };
  return html`
    <${Ask} title=${workspace ? `New project in ${workspace.name}` : "New workspace"} act="Create" off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <${Field} label="Name"><input class="input" value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /><//>
      ${workspace && html`<${Field} label="Description"><input class="input" value=${description} onInput=${(/** @type {any} */ e) => setDescription(e.target.value)} /><//>`}
    <//>
  `;
}
