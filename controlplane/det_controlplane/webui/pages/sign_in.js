// Signing in by password, or at the organization's identity provider.
import { useLive } from "../lib/live.js";
import { arrive, leave, providers } from "../lib/oidc.js";
import { go, place } from "../lib/router.js";
import { cluster, signIn, user } from "../lib/session.js";
import { html, useEffect, useRef, useState } from "../lib/view.js";
import { Button, Failure, Field } from "../parts/basic.js";
import { Mark } from "../parts/frame.js";

const here = () => {
  const { path, query } = place.value;
  return /^\/(sign-in|sign-out|login|logout)$/.test(path) ? "/dashboard" : path + (query.size ? `?${query}` : "");
};

/** Say in full what the API says as Determined's does. @param {Error} error */
const kindly = (error) => (/^invalid credentials$/i.test(error.message) ? new Error("Wrong user name or password.") : error);

/** @param {{ again?: boolean }} props `again`: the session of the user expired, and the page stays below a dialog */
export function Page({ again = false }) {
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const [busy, setBusy] = useState(false);
  const elsewhere = useLive(providers, []);
  const after = here();
  const username = (again && user.value?.username) || "";
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  // Browsers heed "autofocus" once only, not after signing out.
  useEffect(() => /** @type {any} */ (form.current?.elements.namedItem(username ? "password" : "username"))?.focus(), []);
  useEffect(() => {
    const { path, query } = place.value;
    if (path !== "/sign-in") return;
    if (query.has("code") || query.has("error")) {
      setBusy(true);
      arrive(query).then(
        (to) => go(to, { replace: true }),
        (e) => {
          go("/sign-in", { replace: true });
          setError(e);
          setBusy(false);
        },
      );
    } else if (user.value) go("/dashboard", { replace: true });
  }, []);
  /** @param {() => Promise<unknown>} act */
  const attempt = async (act) => {
    setBusy(true);
    setError(undefined);
    try {
      await act();
    } catch (e) {
      setError(kindly(/** @type {Error} */ (e)));
      setBusy(false);
    }
  };
  /** @param {any} e */
  const submit = (e) => {
    e.preventDefault();
    const given = new FormData(e.target);
    attempt(async () => {
      await signIn(String(given.get("username")).trim(), String(given.get("password")));
      go(after, { replace: true });
    });
  };
  const fields = html`
    <${Failure} error=${error} />
    <form class="stack" ref=${form} onSubmit=${submit}>
      <${Field} label="User name"><input class="input" name="username" autocomplete="username" defaultValue=${username} required /><//>
      <${Field} label="Password"><input class="input" name="password" type="password" autocomplete="current-password" /><//>
      <button class="button primary" disabled=${busy}>${busy ? "Signing in …" : "Sign in"}</button>
    </form>
    ${(elsewhere.data ?? []).map(
      (/** @type {any} */ p) => html`<${Button} disabled=${busy} onClick=${() => attempt(() => leave(after))}>Sign in with ${p.name}<//>`,
    )}
  `;
  if (again) {
    return html`
      <div class="dialog-body">
        <h2>Your session expired</h2>
        <p class="soft">Your changes are kept. Sign in to continue.</p>
        ${fields}
      </div>
    `;
  }
  return html`
    <main class="sign-in" id="main">
      <div class="sign-in-box stack">
        <${Mark} />
        <div>
          <h1>Sign in</h1>
          <p class="soft">to ${cluster.value?.clusterName || "Determined"}</p>
        </div>
        ${fields}
      </div>
    </main>
  `;
}
