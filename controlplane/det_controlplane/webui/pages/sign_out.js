// Signing out by an address, as Determined has one.
import { go } from "../lib/router.js";
import { signOut } from "../lib/session.js";
import { html, useEffect } from "../lib/view.js";
import { Bones } from "../parts/basic.js";
import { tell } from "../parts/overlay.js";

export function Page() {
  useEffect(() => {
    signOut().then(
      () => go("/sign-in", { replace: true }),
      (e) => {
        tell(e.message, { bad: true });
        go("/dashboard", { replace: true });
      },
    );
  }, []);
  return html`<${Bones} />`;
}
