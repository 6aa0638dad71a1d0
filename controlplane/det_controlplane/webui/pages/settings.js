// The user's own account: name, password, access tokens, colours.
import { send } from "../lib/api.js";
import { shownName, user } from "../lib/session.js";
import { choose, theme, THEMES } from "../lib/theme.js";
import { html, useState } from "../lib/view.js";
import { Button, Field, Head, Panel, Toggle } from "../parts/basic.js";
import { Line } from "../parts/fields.js";
import { attempt, tell } from "../parts/overlay.js";
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
  const [errors, setErrors] = useState(/** @type {{ current?: string, password?: string, repeated?: string }} */ ({}));
  /** @param {any} e */
  const submit = async (e) => {
    e.preventDefault();
    const form = e.target;
    const { current: currentPassword, password, repeated } = Object.fromEntries(new FormData(form));
    const refuse = (/** @type {"current" | "password" | "repeated"} */ field, /** @type {string} */ text) => {
      setErrors({ [field]: text });
      form.elements[field].focus();
    };
    if (password !== repeated) return refuse("repeated", "The passwords differ.");
    setErrors({});
    try {
      await send("PATCH", path(), { currentPassword, password, isHashed: false });
    } catch (error) {
      const { status, message } = /** @type {import("../lib/api.js").ApiError} */ (error);
      if (status === 403) return refuse("current", `${message}.`);
      if (status === 400) return refuse("password", `${message}.`);
      return tell(message, { bad: true });
    }
    tell("Password changed");
    form.reset();
  };
  const input = (/** @type {"current" | "password" | "repeated"} */ name, /** @type {string} */ autocomplete, required = true) =>
    html`<input class="input" type="password" name=${name} autocomplete=${autocomplete} aria-invalid=${String(name in errors)} required=${required} />`;
  return html`
    <${Panel} title="Password">
      <form class="stack" onSubmit=${submit}>
        <input type="hidden" name="username" autocomplete="username" value=${user.value?.username} />
        <${Field} label="Current password" hint="Leave empty if you have none." error=${errors.current}>${input("current", "current-password", false)}<//>
        <${Field} label="New password" hint="Use at least 8 characters. Ends your other sessions and access tokens." error=${errors.password}>${input("password", "new-password")}<//>
        <${Field} label="Repeat the new password" error=${errors.repeated}>${input("repeated", "new-password")}<//>
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
