// The model registry: models by name, each with its versions.
import { get, post } from "../lib/api.js";
import { usePaged } from "../lib/paged.js";
import { maySomewhere } from "../lib/rights.js";
import { ask, go, link, place } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Head, Panel, Search } from "../parts/basic.js";
import { Line } from "../parts/fields.js";
import { Listing } from "../parts/listing.js";
import { Ask } from "../parts/overlay.js";
import { Ago } from "../parts/time.js";

export function Page() {
  const { query } = place.value;
  const name = query.get("q") ?? "";
  const [making, setMaking] = useState(false);
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get("/api/v1/models", { name, offset, limit, sortBy: "SORT_BY_LAST_UPDATED_TIME", orderBy: "ORDER_BY_DESC" }, { signal });
      return { rows: told.models, total: told.pagination.total };
    },
    [name],
    { every: 15_000 },
  );
  return html`
    <${Head} title="Models" text="Named, versioned checkpoints">${maySomewhere("CREATE_MODEL_REGISTRY") && html`<${Button} kind="primary" icon="plus" onClick=${() => setMaking(true)}>New model<//>`}<//>
    <div class="stack">
      <${Search} label="Search names" value=${name} onInput=${(/** @type {string} */ q) => ask({ q })} />
      <${Panel} flush>
        <${Listing} of=${found} label="Models" columns=${COLUMNS} empty=${html`<${Empty} title=${name ? "No models match your search." : "No models yet"}><p>Create a model, then register checkpoints of your experiments as its versions.</p><//>`} />
      <//>
    </div>
    ${making && html`<${NewModel} onClose=${() => setMaking(false)} />`}
  `;
}

const COLUMNS = [
  { name: "Model", main: true, cell: (/** @type {any} */ m) => html`<a href=${link(`/models/${m.id}`)}>${m.name}</a> ${m.labels.map((/** @type {string} */ l) => html`<span class="label cut">${l}</span>`)}` },
  { name: "Versions", right: true, cell: (/** @type {any} */ m) => m.numVersions },
  { name: "Description", wrap: true, cell: (/** @type {any} */ m) => html`<span class="soft">${m.description}</span>` },
  { name: "User", cell: (/** @type {any} */ m) => m.username },
  { name: "Updated", right: true, cell: (/** @type {any} */ m) => html`<${Ago} at=${m.lastUpdatedTime} />` },
];

/** @param {{ onClose: () => void }} props */
function NewModel({ onClose }) {
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const act = async () => {
    const made = await post("/api/v1/models", { name, description });
    go(`/models/${made.model.id}`);
  };
  return html`
    <${Ask} title="New model" act="Create" off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} />
      <${Line} label="Description" value=${description} set=${setDescription} />
    <//>
  `;
}
