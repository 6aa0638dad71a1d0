// The administration: leads to its first part that the user may see.
import { areas } from "../../lib/rights.js";
import { go } from "../../lib/router.js";
import { html, useEffect } from "../../lib/view.js";
import { NotForYou } from "./area.js";

export function Page() {
  const first = areas()[0];
  useEffect(() => {
    if (first) go(first[0], { replace: true });
  }, []);
  return first ? null : html`<${NotForYou} />`;
}
