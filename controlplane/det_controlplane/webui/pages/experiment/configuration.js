// The configuration as it was given, and as it is with all defaults.
import { html, useState } from "../../lib/view.js";
import { Button, Panel } from "../../parts/basic.js";
import { tell } from "../../parts/overlay.js";
import { Source } from "./code.js";

/** @param {{ experiment: any }} props */
export function Configuration({ experiment }) {
  const [full, setFull] = useState(!experiment.originalConfig);
  const text = full ? JSON.stringify(experiment.config, null, 2) : experiment.originalConfig;
  const copy = () => navigator.clipboard.writeText(text).then(() => tell("Copied"), () => tell("The browser does not let this page copy.", { bad: true }));
  const actions = html`
    <${Button} kind=${full ? "" : "on"} aria-pressed=${String(!full)} onClick=${() => setFull(false)}>As given<//>
    <${Button} kind=${full ? "on" : ""} aria-pressed=${String(full)} onClick=${() => setFull(true)}>With defaults<//>
    <${Button} icon="copy" onClick=${copy}>Copy<//>
  `;
  return html`<${Panel} title="Configuration" actions=${actions} flush><${Source} text=${text} /><//>`;
}
