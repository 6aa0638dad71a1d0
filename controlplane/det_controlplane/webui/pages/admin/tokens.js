// Access tokens of everybody.
import { ask, place } from "../../lib/router.js";
import { html } from "../../lib/view.js";
import { Toggle } from "../../parts/basic.js";
import { AccessTokens } from "../../parts/tokens.js";
import { Area } from "./area.js";

export function Page() {
  const ended = place.value.query.has("ended");
  return html`
    <${Area} at="/admin/tokens" text="By which programs sign in, with the rights of the person"
      actions=${html`<${Toggle} on=${ended} onClick=${() => ask({ ended: ended ? "" : "1" })}>Ended ones too<//>`}>
      <${AccessTokens} ended=${ended} />
    <//>
  `;
}
