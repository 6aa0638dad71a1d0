// Groups of people, which can have roles.
import { post } from "../../lib/api.js";
import { counted } from "../../lib/format.js";
import { usePaged } from "../../lib/paged.js";
import { ask, go, link, place } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { Button, Empty, Panel, Search } from "../../parts/basic.js";
import { Line } from "../../parts/fields.js";
import { Listing } from "../../parts/listing.js";
import { Ask } from "../../parts/overlay.js";
import { Area } from "./area.js";

const COLUMNS = [
  { name: "Group", main: true, cell: (/** @type {any} */ g) => html`<a href=${link(`/admin/groups/${g.group.groupId}`)}>${g.group.name}</a>` },
  { name: "Members", right: true, cell: (/** @type {any} */ g) => g.numMembers },
];

export function Page() {
  const name = place.value.query.get("q") ?? "";
  const [making, setMaking] = useState(false);
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await post("/api/v1/groups/search", { offset, limit, name }, { signal });
      return { rows: told.groups, total: told.pagination.total };
    },
    [name],
  );
  return html`
    <${Area} at="/admin/groups" text=${found.total === undefined ? " " : counted(found.total, "group")}
      actions=${html`<${Button} kind="primary" icon="plus" onClick=${() => setMaking(true)}>New group<//>`}>
      <${Search} label="Search names" value=${name} onInput=${(/** @type {string} */ q) => ask({ q })} />
      <${Panel} flush>
        <${Listing} of=${found} label="Groups" columns=${COLUMNS} id=${(/** @type {any} */ g) => g.group.groupId}
          empty=${html`<${Empty} title=${name ? "No groups match your search." : "No groups yet"}><p>Assign a role to a group to give it to all current and future members.</p><//>`} />
      <//>
    <//>
    ${making && html`<${NewGroup} onClose=${() => setMaking(false)} />`}
  `;
}

/** @param {{ onClose: () => void }} props */
function NewGroup({ onClose }) {
  const [name, setName] = useState("");
  const act = async () => go(`/admin/groups/${(await post("/api/v1/groups", { name })).group.groupId}`);
  return html`
    <${Ask} title="New group" act="Create" off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} autofocus />
    <//>
  `;
}
