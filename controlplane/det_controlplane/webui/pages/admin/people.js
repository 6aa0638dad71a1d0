// All accounts: create, rename, set passwords, deactivate.
import { get, post } from "../../lib/api.js";
import { counted } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { providers } from "../../lib/oidc.js";
import { usePaged } from "../../lib/paged.js";
import { ask, go, link, place } from "../../lib/router.js";
import { shownName } from "../../lib/session.js";
import { html, useState } from "../../lib/view.js";
import { Button, Empty, Panel, Search, Toggle } from "../../parts/basic.js";
import { Line, Tick } from "../../parts/fields.js";
import { Listing } from "../../parts/listing.js";
import { Ask, tell } from "../../parts/overlay.js";
import { Ago } from "../../parts/time.js";
import { Area } from "./area.js";

const COLUMNS = [
  { name: "Person", main: true, sort: "USER_NAME", cell: (/** @type {any} */ u) => html`<a href=${link(`/admin/people/${u.id}`)}>${shownName(u)}</a> ${u.displayName && html`<span class="faint">${u.username}</span>`}` },
  { name: "Rights", sort: "ADMIN", cell: (/** @type {any} */ u) => (u.admin ? html`<span class="label best">administrator</span>` : "") },
  { name: "Sign-in", sort: "REMOTE", cell: (/** @type {any} */ u) => (u.remote ? "identity provider" : "password") },
  { name: "Account", sort: "ACTIVE", cell: (/** @type {any} */ u) => html`<span class=${`state ${u.active ? "green" : ""}`}>${u.active ? "Active" : "Deactivated"}</span>` },
  { name: "Last sign-in", right: true, sort: "LAST_AUTH_TIME", cell: (/** @type {any} */ u) => html`<${Ago} at=${u.lastAuthAt} never="never" />` },
];

export function Page() {
  const { query } = place.value;
  const name = query.get("q") ?? "";
  const gone = query.has("deactivated");
  const sort = query.get("sort") ?? "USER_NAME=asc";
  const [making, setMaking] = useState(false);
  const [by, direction] = sort.split("=");
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get("/api/v1/users", { offset, limit, name, active: gone ? undefined : true, sortBy: `SORT_BY_${by}`, orderBy: `ORDER_BY_${direction?.toUpperCase()}` }, { signal });
      return { rows: told.users, total: told.pagination.total };
    },
    [name, gone, sort],
  );
  return html`
    <${Area} at="/admin/people" text=${found.total === undefined ? " " : counted(found.total, gone ? "account" : "active account")}
      actions=${html`<${Button} kind="primary" icon="plus" onClick=${() => setMaking(true)}>New account<//>`}>
      <div class="row">
        <${Search} label="Search names" value=${name} onInput=${(/** @type {string} */ q) => ask({ q })} />
        <${Toggle} on=${gone} onClick=${() => ask({ deactivated: gone ? "" : "1" })}>Show deactivated<//>
      </div>
      <${Panel} flush>
        <${Listing} of=${found} label="People" columns=${COLUMNS} sort=${sort} onSort=${(/** @type {string} */ s) => ask({ sort: s })} empty=${html`<${Empty} title="No users match your search."><p>User names and display names are searched.</p><//>`} />
      <//>
    <//>
    ${making && html`<${NewAccount} onClose=${() => setMaking(false)} />`}
  `;
}

/** @param {{ onClose: () => void }} props */
function NewAccount({ onClose }) {
  const [username, setUsername] = useState("");
  const [displayName, setDisplayName] = useState("");
  const [password, setPassword] = useState("");
  const [admin, setAdmin] = useState(false);
  const [remote, setRemote] = useState(false);
  const elsewhere = useLive(providers, []);
  const act = async () => {
    const user = { username, displayName, admin, remote, active: true };
    const made = await post("/api/v1/users", { user, ...(remote ? {} : { password, isHashed: false }) });
    tell(`${username} can sign in now`);
    go(`/admin/people/${made.user.id}`);
  };
  return html`
    <${Ask} title="New account" act="Create" off=${username.trim().length < 2} onAct=${act} onClose=${onClose}>
      <${Line} label="User name" value=${username} set=${setUsername} autocomplete="off" autofocus />
      <${Line} label="Display name" hint="Optional" value=${displayName} set=${setDisplayName} autocomplete="off" />
      ${!!elsewhere.data?.length && html`<${Tick} label="Sign in with the identity provider" hint="The account has no password here." value=${remote} set=${setRemote} />`}
      ${!remote && html`<${Line} label="Password" hint="Share it with the user, who can change it in Settings." value=${password} set=${setPassword} type="password" autocomplete="new-password" />`}
      <${Tick} label="Administrator" hint="Full access to the cluster." value=${admin} set=${setAdmin} />
    <//>
  `;
}
