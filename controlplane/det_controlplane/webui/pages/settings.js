// The user's own account: name, password, access tokens, colours.
import { get, post, send } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { shownName, user } from "../lib/session.js";
import { choose, theme, THEMES } from "../lib/theme.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Field, Head, Loaded, Panel } from "../parts/basic.js";
import { Ask, attempt, Dialog } from "../parts/overlay.js";
import { Table } from "../parts/table.js";

export const Page = () => html`
  <${Head} title="Settings" text=${`You are ${user.value?.username}${user.value?.admin ? ", an administrator" : ""}`} />
  <div class="stack">
    <div class="columns"><${Account} /><${Password} /><${Colours} /></div>
    <${Tokens} />
  </div>
`;

const path = () => `/api/v1/users/${user.value?.id}`;

function Account() {
  const [name, setName] = useState(user.value?.displayName ?? "");
  const save = () =>
    attempt(async () => {
      user.value = (await send("PATCH", path(), { displayName: name })).user;
    }, "Name saved");
  return html`
    <${Panel} title="Name">
      <div class="stack">
        <${Field} label="Shown name" hint=${`Others see ${shownName(user.value)}.`}><input class="input" value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} /><//>
        <div><${Button} disabled=${name === (user.value?.displayName ?? "")} onClick=${save}>Save<//></div>
      </div>
    <//>
  `;
}

function Password() {
  /** @param {any} e */
  const submit = async (e) => {
    e.preventDefault();
    const form = e.target;
    const password = String(new FormData(form).get("password"));
    if (await attempt(() => send("PATCH", path(), { password, isHashed: false }), "Password changed")) form.reset();
  };
  return html`
    <${Panel} title="Password">
      <form class="stack" onSubmit=${submit}>
        <input type="hidden" name="username" autocomplete="username" value=${user.value?.username} />
        <${Field} label="New password"><input class="input" type="password" name="password" autocomplete="new-password" required /><//>
        <div><button class="button">Change password</button></div>
      </form>
    <//>
  `;
}

const Colours = () => html`
  <${Panel} title="Colours">
    <div class="row" role="group" aria-label="Colours">
      ${THEMES.map((name) => html`<${Button} kind=${theme.value === name ? "on" : ""} aria-pressed=${String(theme.value === name)} onClick=${() => choose(name)}>${{ system: "As the system", light: "Light", dark: "Dark" }[name]}<//>`)}
    </div>
  <//>
`;

function Tokens() {
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState("");
  const found = useLive(async (signal) => (await get("/api/v1/tokens", { username: user.value?.username, limit: 200 }, { signal })).tokenInfo, []);
  const revoke = (/** @type {any} */ t) => attempt(() => send("PATCH", `/api/v1/tokens/${t.id}`, { setRevoked: true }), "Token revoked").then(found.reload);
  const columns = [
    { name: "Token", right: true, cell: (/** @type {any} */ t) => t.id },
    { name: "Description", main: true, cell: (/** @type {any} */ t) => t.description || html`<span class="faint">none</span>` },
    { name: "Made", right: true, cell: (/** @type {any} */ t) => moment(t.createdAt) },
    { name: "Ends", right: true, cell: (/** @type {any} */ t) => moment(t.expiry) },
    { name: "", right: true, cell: (/** @type {any} */ t) => html`<${Button} kind="danger" aria-label=${`Revoke token ${t.id}`} onClick=${() => revoke(t)}>Revoke<//>` },
  ];
  return html`
    <${Panel} title="Access tokens" flush actions=${html`<${Button} icon="plus" onClick=${() => setMaking(true)}>New token<//>`}>
      <${Loaded} of=${found} lines=${2}>
        ${(/** @type {any[]} */ rows) => (rows.length ? html`<${Table} label="Access tokens" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} />` : html`<${Empty} title="No access tokens"><p>Programs sign in by them, instead of by your password.</p><//>`)}
      <//>
    <//>
    ${making && html`<${NewToken} onClose=${() => setMaking(false)} onDone=${async (/** @type {string} */ token) => (setMade(token), await found.reload())} />`}
    ${made &&
    html`
      <${Dialog} title="Your new token" onClose=${() => setMade("")}>
        <p class="soft">It is shown this once.</p>
        <pre class="token" tabindex="0">${made}</pre>
        <div class="dialog-foot"><${Button} onClick=${() => setMade("")}>Close<//></div>
      <//>
    `}
  `;
}

/** @param {{ onClose: () => void, onDone: (token: string) => Promise<void> }} props */
function NewToken({ onClose, onDone }) {
  const [description, setDescription] = useState("");
  const [days, setDays] = useState("30");
  const act = async () => onDone((await post("/api/v1/tokens", { description, lifespan: `${Number(days) * 24}h` })).token);
  return html`
    <${Ask} title="New token" act="Create" onAct=${act} onClose=${onClose}>
      <${Field} label="Description" hint="What will use it"><input class="input" value=${description} onInput=${(/** @type {any} */ e) => setDescription(e.target.value)} /><//>
      <${Field} label="Days until it ends"><input class="input" type="number" min="1" required value=${days} onInput=${(/** @type {any} */ e) => setDays(e.target.value)} /><//>
    <//>
  `;
}
