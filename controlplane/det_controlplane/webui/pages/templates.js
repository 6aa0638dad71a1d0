// Templates: parts of configurations that are kept in the cluster.
import { get, post } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { usePaged } from "../lib/paged.js";
import { may, maySomewhere } from "../lib/rights.js";
import { ask, go, link, place } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { usual, workspaces } from "../lib/workspaces.js";
import { Button, Empty, Head, Panel, Search } from "../parts/basic.js";
import { useChecked, Verdict } from "../parts/checked.js";
import { Choice, Code, Line } from "../parts/fields.js";
import { Listing } from "../parts/listing.js";
import { Ask } from "../parts/overlay.js";

const EXAMPLE = "resources:\n  slots_per_trial: 8\nenvironment:\n  environment_variables:\n    - NCCL_DEBUG=INFO\n";

export function Page() {
  const name = place.value.query.get("q") ?? "";
  const [making, setMaking] = useState(false);
  const places = useLive(workspaces, []);
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get("/api/v1/templates", { offset, limit, name, sortBy: "SORT_BY_NAME" }, { signal });
      return { rows: told.templates, total: told.pagination.total };
    },
    [name],
  );
  const columns = [
    { name: "Template", main: true, cell: (/** @type {any} */ t) => html`<a href=${link(`/templates/${encodeURIComponent(t.name)}`)}>${t.name}</a>` },
    { name: "Sets", wrap: true, cell: (/** @type {any} */ t) => html`<span class="soft">${Object.keys(t.config).join(", ")}</span>` },
    { name: "Workspace", cell: (/** @type {any} */ t) => (places.data ?? []).find((w) => w.id === t.workspaceId)?.name ?? t.workspaceId },
  ];
  return html`
    <${Head} title="Templates" text="Reusable defaults merged into submitted configurations">
      ${maySomewhere("CREATE_TEMPLATES") && html`<${Button} kind="primary" icon="plus" onClick=${() => setMaking(true)}>New template<//>`}
    <//>
    <div class="stack">
      <${Search} label="Search names" value=${name} onInput=${(/** @type {string} */ q) => ask({ q })} />
      <${Panel} flush>
        <${Listing} of=${found} label="Templates" columns=${columns} id=${(/** @type {any} */ t) => t.name} empty=${html`<${None} narrowed=${!!name} />`} />
      <//>
    </div>
    ${making && places.data && html`<${NewTemplate} places=${places.data.filter((w) => may("CREATE_TEMPLATES", w.id))} onClose=${() => setMaking(false)} />`}
  `;
}

/** @param {{ narrowed: boolean }} props */
const None = ({ narrowed }) => html`
  <${Empty} title=${narrowed ? "No templates match your search." : "No templates yet"}>
    <p>Define settings that many configurations share, such as images, mounts and slots. Then select the template when you submit:</p>
    <pre>det experiment create --template NAME config.yaml .</pre>
  <//>
`;

/** @param {{ places: { id: number, name: string }[], onClose: () => void }} props */
function NewTemplate({ places, onClose }) {
  const [name, setName] = useState("");
  const [config, setConfig] = useState(EXAMPLE);
  const [workspace, setWorkspace] = useState(String(usual(places)?.id ?? 1));
  const path = `/api/v1/templates/${encodeURIComponent(name.trim())}`;
  const checked = useChecked((signal) => checkedConfig(config, signal), [config]);
  const act = async () => {
    const made = await post(path, { config, workspaceId: Number(workspace) });
    go(`/templates/${encodeURIComponent(made.template.name)}`);
  };
  return html`
    <${Ask} title="New template" act="Create" wide unsaved=${config !== EXAMPLE} off=${!name.trim() || !checked.fits} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} autofocus />
      ${places.length > 1 && html`<${Choice} label="Workspace" hint="Its members can use and change the template" value=${workspace} set=${setWorkspace} of=${places.map((w) => [String(w.id), w.name])} />`}
      <${Code} label="Configuration, in YAML" short value=${config} set=${setConfig} bad=${!!checked.problems} />
      <${Verdict} of=${checked} />
    <//>
  `;
}

/** Let the cluster read a template; throws what is wrong with it. @param {string} config @param {AbortSignal} signal */
export async function checkedConfig(config, signal) {
  const { template } = await post("/api/v1/templates/check", { config, validateOnly: true }, { signal });
  return `Sets ${Object.keys(template.config).join(", ") || "no keys"}.`;
}
