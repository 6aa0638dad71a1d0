// A bar at the foot of a table: how many rows are chosen, and what can be done to them.
import { counted } from "../lib/format.js";
import { html } from "../lib/view.js";
import { Button } from "./basic.js";

/** @param {{ count: number, what: string, clear: () => void, children?: any }} props `what` is counted: "trial" */
export const ChosenBar = ({ count, what, clear, children }) =>
  count > 0 &&
  html`
    <div class="chosen" role="group" aria-label=${`Chosen ${what}s`}>
      <span class="row"><strong role="status">${counted(count, what)} chosen</strong><${Button} kind="plain square" icon="close" aria-label="Choose none" onClick=${clear} /></span>
      ${children}
    </div>
  `;
