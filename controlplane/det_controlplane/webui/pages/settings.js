// The user's own account: name, password, access tokens, colours.
import { send } from "../lib/api.js";
import { shownName, user } from "../lib/session.js";
import { choose, theme, THEMES } from "../lib/theme.js";
import { html, useState } from "../lib/view.js";
import { Button, Field, Head, Panel, Toggle } from "../parts/basic.js";
import { Line } from "../parts/fields.js";
import { attempt } from "../parts/overlay.js";
import { Sessions } from "../parts/sessions.js";
import { AccessTokens } from "../parts/tokens.js";

export const Page = () => html`
  <${Head} title="Settings" text=${`Signed in as ${user.value?.username}${user.value?.admin ? ", an administrator" : ""}`} />
  <div class="stack">
    <div class="columns"><div class="stack"><${Account} /><${Colours} /></div><${Password} /></div>
    <${Sessions} of=${user.value} />
    <${AccessTokens} of=${user.value} />
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
        <${Line} label="Display name" hint=${`Shown to others as “${shownName(user.value)}”`} value=${name} set=${setName} />
        <div><${Button} disabled=${name === (user.value?.displayName ?? "")} onClick=${save}>Save<//></div>
      </div>
    <//>
  `;
}

function Password() {
  const [differs, setDiffers] = useState(false);
  /** @param {any} e */
  const submit = async (e) => {
    e.preventDefault();
    const form = e.target;
    const { current: currentPassword, password, repeated } = Object.fromEntries(new FormData(form));
    setDiffers(password !== repeated);
    if (password !== repeated) return form.elements.repeated.focus();
    if (await attempt(() => send("PATCH", path(), { currentPassword, password, isHashed: false }), "Password changed")) form.reset();
  };
  return html`
    <${Panel} title="Password">
      <form class="stack" onSubmit=${submit}>
        <input type="hidden" name="username" autocomplete="username" value=${user.value?.username} />
        <${Field} label="Current password" hint="Leave empty if you have none."><input class="input" type="password" name="current" autocomplete="current-password" /><//>
        <${Field} label="New password" hint="Ends your other sessions and access tokens."><input class="input" type="password" name="password" autocomplete="new-password" required /><//>
        <${Field} label="Repeat the new password" error=${differs && "The passwords differ."}><input class="input" type="password" name="repeated" autocomplete="new-password" aria-invalid=${String(differs)} required /><//>
        <div><button class="button">Change password</button></div>
      </form>
    <//>
  `;
}

const Colours = () => html`
  <${Panel} title="Colours">
    <div class="row" role="group" aria-label="Colours">
      ${THEMES.map((name) => html`<${Toggle} on=${theme.value === name} onClick=${() => choose(name)}>${{ system: "System", light: "Light", dark: "Dark" }[name]}<//>`)}
    </div>
  <//>
`;
