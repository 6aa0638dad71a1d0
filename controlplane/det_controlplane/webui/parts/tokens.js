// Access tokens of one person, or of everybody: made, described, revoked.
import { get, post, send } from "../lib/api.js";
import { copy } from "../lib/clipboard.js";
import { moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { usePaged } from "../lib/paged.js";
import { link } from "../lib/router.js";
import { user } from "../lib/session.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Panel } from "./basic.js";
import { Line } from "./fields.js";
import { Listing } from "./listing.js";
import { Ask, attempt, Dialog, Menu } from "./overlay.js";
import { Ago } from "./time.js";

/** @param {{ of?: { id: number, username: string }, ended?: boolean }} props everybody's without a person */
export function AccessTokens({ of, ended }) {
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState("");
  const [open, setOpen] = useState(/** @type {any} */ (null));
  const names = useLive(async (signal) => !of && new Map((await get("/api/v1/users", { limit: -1 }, { signal })).users.map((/** @type {any} */ u) => [u.id, u.username])), [of?.id]);
  const found = usePaged(
    async (offset, limit, signal) => {
      const told = await get("/api/v1/tokens", { username: of?.username, offset, limit, showInactive: ended, orderBy: "ORDER_BY_DESC" }, { signal });
      return { rows: told.tokenInfo, total: told.pagination.total };
    },
    [of?.id, ended],
    { every: 0 },
  );
  const shut = () => setOpen(null);
  return html`
    <${Panel} title=${of ? "Access tokens" : ""} flush actions=${of && html`<${Button} icon="plus" onClick=${() => setMaking(true)}>New token<//>`}>
      <${Listing} of=${found} label="Access tokens" columns=${columnsOf(of ? undefined : names.data || new Map(), setOpen)} empty=${html`<${NoTokens} />`} />
    <//>
    ${making && of && html`<${NewToken} of=${of} onClose=${() => setMaking(false)} onDone=${async (/** @type {string} */ token) => (setMade(token), await found.reload())} />`}
    ${made && html`<${Once} token=${made} onClose=${() => setMade("")} />`}
    ${open?.what === "describe" && html`<${Describe} token=${open.token} onClose=${shut} onDone=${found.reload} />`}
    ${open?.what === "revoke" &&
    html`
      <${Ask} title=${`Revoke token ${open.token.id}?`} act="Revoke" danger onClose=${shut}
        onAct=${async () => {
          await send("PATCH", `/api/v1/tokens/${open.token.id}`, { setRevoked: true });
          await found.reload();
        }}>
        <p class="soft">Programs that use this token can no longer sign in. A revoked token cannot be restored.</p>
      <//>
    `}
  `;
}

const NoTokens = () => html`<${Empty} title="No access tokens"><p>Use tokens instead of a password in scripts and pipelines. They expire and can be revoked.</p><//>`;

/** @param {Map<number, string> | undefined} names of people, where tokens are of several @param {(what: any) => void} open */
function columnsOf(names, open) {
  const over = (/** @type {any} */ t) => t.revoked || (t.expiry && Date.parse(t.expiry) < Date.now());
  return [
    { name: "Token", right: true, cell: (/** @type {any} */ t) => t.id },
    { name: "Description", main: true, cell: (/** @type {any} */ t) => t.description || html`<span class="faint">none</span>` },
    ...(names ? [{ name: "User", cell: (/** @type {any} */ t) => html`<a href=${link(`/admin/people/${t.userId}`)}>${names.get(t.userId) ?? `user ${t.userId}`}</a>` }] : []),
    { name: "Created", right: true, cell: (/** @type {any} */ t) => html`<${Ago} at=${t.createdAt} />` },
    { name: "Expires", right: true, cell: (/** @type {any} */ t) => (t.revoked ? "revoked" : t.expiry ? moment(t.expiry) : "never") },
    {
      name: "", right: true,
      cell: (/** @type {any} */ t) =>
        !over(t) &&
        html`<${Menu} label=${`Actions on token ${t.id}`} kind="plain" items=${[
          { name: "Edit description", act: () => open({ what: "describe", token: t }) },
          { name: "Revoke", danger: true, act: () => open({ what: "revoke", token: t }) },
        ]} />`,
    },
  ];
}

/** @param {{ of: { id: number, username: string }, onClose: () => void, onDone: (token: string) => Promise<void> }} props */
function NewToken({ of, onClose, onDone }) {
  const [description, setDescription] = useState("");
  const [days, setDays] = useState("30");
  const act = async () => {
    const made = await post("/api/v1/tokens", { userId: of.id, description, lifespan: `${Number(days) * 24}h` });
    await onDone(made.token);
  };
  return html`
    <${Ask} title=${of.id === user.value?.id ? "New token" : `New token for ${of.username}`} act="Create" onAct=${act} onClose=${onClose}>
      <${Line} label="Description" hint="What the token is for" value=${description} set=${setDescription} />
      <${Line} label="Lifetime in days" type="number" min="1" required value=${days} set=${setDays} />
    <//>
  `;
}

/** @param {{ token: any, onClose: () => void, onDone: () => Promise<void> }} props */
function Describe({ token, onClose, onDone }) {
  const [description, setDescription] = useState(token.description ?? "");
  const act = async () => {
    await send("PATCH", `/api/v1/tokens/${token.id}`, { description });
    await onDone();
  };
  return html`
    <${Ask} title=${`Edit token ${token.id}`} act="Save" onAct=${act} onClose=${onClose}>
      <${Line} label="Description" hint="What the token is for" value=${description} set=${setDescription} />
    <//>
  `;
}

/** @param {{ token: string, onClose: () => void }} props */
const Once = ({ token, onClose }) => html`
  <${Dialog} title="Your new token" onClose=${onClose}>
    <p class="soft">Copy the token now, because it is not shown again. Programs read it from DET_USER_TOKEN.</p>
    <pre class="token" tabindex="0">${token}</pre>
    <div class="dialog-foot">
      <${Button} icon="copy" onClick=${() => attempt(() => copy(token), "Copied")}>Copy<//>
      <${Button} kind="primary" onClick=${onClose}>Close<//>
    </div>
  <//>
`;
