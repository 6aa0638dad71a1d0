// Access tokens of everybody.
import { ask, place } from "../../lib/router.js";
import { html } from "../../lib/view.js";
import { Toggle } from "../../parts/basic.js";
import { AccessTokens } from "../../parts/tokens.js";
import { Area } from "./area.js";

export function Page() {
  const ended = place.value.query.has("ended");
  return html`
    <${Area} at="/admin/tokens" text="Programs sign in with access tokens and get the permissions of their user"
      actions=${html`<${Toggle} on=${ended} onClick=${() => ask({ ended: ended ? "" : "1" })}>Show ended<//>`}>
      <${AccessTokens} ended=${ended} />
    <//>
  `;
}
