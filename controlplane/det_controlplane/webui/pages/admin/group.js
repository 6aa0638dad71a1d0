// One group: who belongs to it.
import { get, send } from "../../lib/api.js";
import { counted } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { go, link } from "../../lib/router.js";
import { shownName } from "../../lib/session.js";
import { html, useState } from "../../lib/view.js";
import { Button, Empty, Loaded, Panel } from "../../parts/basic.js";
import { Line } from "../../parts/fields.js";
import { Ask, AskDelete, attempt, Menu } from "../../parts/overlay.js";
import { Person, personNamed } from "../../parts/person.js";
import { Table } from "../../parts/table.js";
import { Area } from "./area.js";

/** @param {{ id: string }} props */
export function Page({ id }) {
  const path = `/api/v1/groups/${encodeURIComponent(id)}`;
  const found = useLive(async (signal) => (await get(path, {}, { signal })).group, [id], 15_000);
  return html`<${Loaded} of=${found} title="Group" list=${["/admin/groups", "All groups"]}>${(/** @type {any} */ group) => html`<${Group} group=${group} path=${path} reload=${found.reload} />`}<//>`;
}

/** @param {{ group: any, path: string, reload: () => Promise<void> }} props */
function Group({ group, path, reload }) {
  const [open, setOpen] = useState("");
  const close = () => setOpen("");
  const put = (/** @type {any} */ change) => send("PUT", path, change);
  const remove = async (/** @type {any} */ u) => {
    const back = () => void attempt(() => put({ addUsers: [u.id] }), "Undone").then(reload);
    await attempt(() => put({ removeUsers: [u.id] }), `Removed ${shownName(u)} from ${group.name}`, back);
    await reload();
  };
  const columns = [
    { name: "Member", main: true, cell: (/** @type {any} */ u) => html`<a href=${link(`/admin/people/${u.id}`)}>${shownName(u)}</a> ${u.displayName && html`<span class="faint">${u.username}</span>`}` },
    { name: "Account", cell: (/** @type {any} */ u) => (u.active ? "active" : html`<span class="soft">deactivated</span>`) },
    { name: "", right: true, cell: (/** @type {any} */ u) => html`<${Button} kind="danger" aria-label=${`Remove ${u.username}`} onClick=${() => remove(u)}>Remove<//>` },
  ];
  return html`
    <${Area} at="/admin/groups" title=${group.name} text=${counted(group.users.length, "member")}
      actions=${html`
        <${Button} kind="primary" icon="plus" onClick=${() => setOpen("add")}>Add member<//>
        <${Menu} label="More actions" items=${[{ name: "Rename", act: () => setOpen("rename") }, { name: "Delete", danger: true, act: () => setOpen("delete") }]} />
      `}>
      <${Panel} flush>
        ${group.users.length
          ? html`<${Table} label="Members" columns=${columns} total=${group.users.length} row=${(/** @type {number} */ i) => group.users[i]} />`
          : html`<${Empty} title="No members yet"><p>Members get the <a href=${link("/admin/roles")}>roles</a> of the group.</p><//>`}
      <//>
    <//>
    ${open === "add" && html`<${Add} group=${group} onClose=${close} onAdd=${async (/** @type {number} */ id) => (await put({ addUsers: [id] }), await reload())} />`}
    ${open === "rename" && html`<${Rename} group=${group} onClose=${close} onRename=${async (/** @type {string} */ name) => (await put({ name }), await reload())} />`}
    ${open === "delete" && html`<${AskDelete} what=${group.name} path=${path} onDone=${() => go("/admin/groups")} onClose=${close}>The group and its role assignments are deleted. Members keep their own roles.<//>`}
  `;
}

/** @param {{ group: any, onClose: () => void, onAdd: (id: number) => Promise<void> }} props */
function Add({ group, onClose, onAdd }) {
  const [name, setName] = useState("");
  return html`
    <${Ask} title=${`Add member to ${group.name}`} act="Add" off=${!name.trim()} onAct=${async () => onAdd((await personNamed(name)).id)} onClose=${onClose}>
      <${Person} label="Person" value=${name} set=${setName} autofocus />
    <//>
  `;
}

/** @param {{ group: any, onClose: () => void, onRename: (name: string) => Promise<void> }} props */
function Rename({ group, onClose, onRename }) {
  const [name, setName] = useState(group.name);
  return html`
    <${Ask} title=${`Rename ${group.name}`} act="Save" off=${!name.trim()} onAct=${() => onRename(name)} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} />
    <//>
  `;
}
