// The message that everybody sees on every page, and after signing in on the command line.
import { get, send } from "../../lib/api.js";
import { moment } from "../../lib/format.js";
import { useLive } from "../../lib/live.js";
import { refresh } from "../../lib/session.js";
import { html, useState } from "../../lib/view.js";
import { Button, Failure, Loaded, Pairs, Panel } from "../../parts/basic.js";
import { Line } from "../../parts/fields.js";
import { attempt } from "../../parts/overlay.js";
import { Area } from "./area.js";

const LONGEST = 250;

export function Page() {
  const found = useLive(async (signal) => (await get("/api/v1/master/cluster_message", {}, { signal })).clusterMessage, []);
  const reload = async () => {
    await Promise.all([found.reload(), refresh()]);
  };
  return html`
    <${Area} at="/admin/message" text="Announcements for all users, on every page and in the command line">
      <div class="columns">
        <${Panel} title="Current message"><${Loaded} of=${found} lines=${2}>${(/** @type {any} */ now) => html`<${Now} message=${now} reload=${reload} />`}<//><//>
        <${Panel} title="New message"><${SetMessage} reload=${reload} /><//>
      </div>
    <//>
  `;
}

/** @param {{ message: any, reload: () => Promise<void> }} props */
function Now({ message, reload }) {
  if (!message) return html`<p class="soft">None</p>`;
  const again = () => void attempt(() => send("PUT", "/api/v1/master/cluster_message", { message: message.message, startTime: message.startTime, endTime: message.endTime }), "Message restored").then(reload);
  const clear = () => attempt(() => send("DELETE", "/api/v1/master/cluster_message"), "Message cleared", again).then(reload);
  return html`
    <div class="stack">
      <${Pairs} of=${[["Text", message.message], ["From", moment(message.startTime)], ["Until", message.endTime ? moment(message.endTime) : "cleared"]]} />
      <div><${Button} kind="danger" onClick=${clear}>Clear message<//></div>
    </div>
  `;
}

/** @param {string} local as the field gives it */
const timeOf = (local) => (local ? new Date(local).toISOString() : undefined);

/** @param {{ reload: () => Promise<void> }} props */
function SetMessage({ reload }) {
  const [message, setMessage] = useState("");
  const [from, setFrom] = useState("");
  const [until, setUntil] = useState("");
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  /** @param {Event} e */
  const submit = async (e) => {
    e.preventDefault();
    setError(undefined);
    try {
      await send("PUT", "/api/v1/master/cluster_message", { message, startTime: timeOf(from), endTime: timeOf(until) });
      setMessage("");
      await reload();
    } catch (problem) {
      setError(/** @type {Error} */ (problem));
    }
  };
  return html`
    <form class="stack" onSubmit=${submit}>
      <${Line} label="Message" hint=${`${message.length} of ${LONGEST} characters. Replaces the current message.`} value=${message} set=${setMessage} maxlength=${LONGEST} required />
      <div class="columns narrow">
        <${Line} label="From" hint="Leave empty to show immediately" type="datetime-local" value=${from} set=${setFrom} />
        <${Line} label="Until" hint="Leave empty to show until cleared" type="datetime-local" value=${until} set=${setUntil} />
      </div>
      <${Failure} error=${error} />
      <div><button class="button primary" disabled=${!message.trim()}>Set message</button></div>
    </form>
  `;
}
