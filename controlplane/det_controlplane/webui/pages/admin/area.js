// The head of the administration pages, with links between them.
import { AREAS, areas } from "../../lib/rights.js";
import { link } from "../../lib/router.js";
import { html } from "../../lib/view.js";
import { Button, Empty, Head, Tabs } from "../../parts/basic.js";

/** @param {{ at: string, title?: string, text?: any, actions?: any, beside?: any, children?: any }} props `at` is the address of a part */
export function Area({ at, title, text, actions, beside, children }) {
  const area = AREAS.find(([to]) => to === at);
  if (!area?.[2]()) return html`<${NotForYou} />`;
  return html`
    <${Head} title=${title ?? area[1]} text=${text} beside=${beside}>${actions}<//>
    <${Tabs} label="Administration" tabs=${areas().map(([to, name]) => ({ name, href: link(to), chosen: to === at }))} />
    <div class="stack">${children}</div>
  `;
}

/** @param {{ at: string }} props where to select another workspace */
export const NoPlace = ({ at }) => html`
  <div class="panel">
    <${Empty} title="Workspace not found">
      <p>It was deleted or archived, or you have no access to it.</p>
      <${Button} href=${link(at)}>Select another workspace<//>
    <//>
  </div>
`;

export const NotForYou = () => html`
  <${Head} title="Administration" />
  <div class="panel">
    <${Empty} title="Administrators only">
      <p>Ask a cluster administrator to make changes here.</p>
      <${Button} href=${link("/dashboard")}>Go home<//>
    <//>
  </div>
`;
