// The configuration as it was given, and as it is with all defaults.
import { copy } from "../../lib/clipboard.js";
import { html, useState } from "../../lib/view.js";
import { Button, Panel, Toggle } from "../../parts/basic.js";
import { attempt } from "../../parts/overlay.js";
import { Source } from "./code.js";

/** @param {{ experiment: any }} props */
export function Configuration({ experiment }) {
  const [full, setFull] = useState(!experiment.originalConfig);
  const text = full ? JSON.stringify(experiment.config, null, 2) : experiment.originalConfig;
  const actions = html`
    <${Toggle} on=${!full} onClick=${() => setFull(false)}>As submitted<//>
    <${Toggle} on=${full} onClick=${() => setFull(true)}>With defaults<//>
    <${Button} icon="copy" onClick=${() => attempt(() => copy(text), "Copied")}>Copy<//>
  `;
  return html`<${Panel} title="Configuration" actions=${actions} flush><${Source} text=${text} /><//>`;
}
