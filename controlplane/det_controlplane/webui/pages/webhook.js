// One webhook: the last tries to deliver its messages.
import { get } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { link } from "../lib/router.js";
import { html } from "../lib/view.js";
import { Button, Empty, Head, Loaded, Panel } from "../parts/basic.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";

const LIVE_MS = 8_000;
/** @type {Record<string, string>} */
const EVENTS = { EXPERIMENT_STATE_CHANGE: "An experiment ended", TASK_LOG: "A line of a log", CUSTOM: "An alert" };

/** @param {{ id: string }} props */
export function Page({ id }) {
  const path = `/api/v1/webhooks/${encodeURIComponent(id)}`;
  const found = useLive(
    async (signal) => {
      const [{ webhook }, { deliveries }] = await Promise.all([get(path, {}, { signal }), get(`${path}/deliveries`, {}, { signal })]);
      return { webhook, deliveries };
    },
    [id],
    LIVE_MS,
  );
  return html`
    <${Loaded} of=${found} title="Webhook">
      ${(/** @type {{ webhook: any, deliveries: any[] }} */ { webhook, deliveries }) => html`
        <${Head} title=${webhook.name} text=${`What was sent to ${webhook.url}`}><${Button} href=${link("/webhooks")}>All webhooks<//><//>
        <${Panel} flush>${deliveries.length ? html`<${Deliveries} rows=${deliveries} />` : html`<${None} waiting=${webhook.waitingMessages} />`}<//>
      `}
    <//>
  `;
}

/** @param {{ waiting: number }} props */
const None = ({ waiting }) => html`
  <${Empty} title="Nothing was sent yet"><p>${waiting ? "A message waits to be sent." : "The last hundred tries will be here, with what came of each."}</p><//>
`;

/** @param {{ rows: any[] }} props */
function Deliveries({ rows }) {
  const columns = [
    { name: "When", cell: (/** @type {any} */ d) => html`<${Ago} at=${d.at} />` },
    {
      name: "Event", main: true,
      cell: (/** @type {any} */ d) => html`<span title=${d.eventId}>${EVENTS[d.eventType] ?? d.eventType}</span>${d.experimentId && html`: <a href=${link(`/experiments/${d.experimentId}`)}>experiment ${d.experimentId}</a>`}`,
    },
    { name: "Try", right: true, cell: (/** @type {any} */ d) => d.attempt },
    { name: "Result", wrap: true, cell: (/** @type {any} */ d) => html`<span class=${d.arrived ? "state green" : "state red"}>${d.arrived ? "arrived" : d.nextAt ? "failed" : "given up"}</span>${!d.arrived && html` <span class="soft">${d.failure}</span>`}` },
    { name: "Next try", right: true, cell: (/** @type {any} */ d) => (d.nextAt ? moment(d.nextAt) : "") },
  ];
  return html`<${Table} label="Deliveries" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} />`;
}
