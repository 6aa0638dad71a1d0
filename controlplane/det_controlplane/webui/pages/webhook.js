// One webhook: the last attempts to deliver its messages.
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
const EVENTS = { EXPERIMENT_STATE_CHANGE: "Experiment ended", TASK_LOG: "Log line matched", CUSTOM: "Alert" };

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
    <${Loaded} of=${found} title="Webhook" list=${["/webhooks", "All webhooks"]}>
      ${(/** @type {{ webhook: any, deliveries: any[] }} */ { webhook, deliveries }) => html`
        <${Head} title=${webhook.name} text=${`Deliveries to ${webhook.url}`}><${Button} href=${link("/webhooks")}>All webhooks<//><//>
        <${Panel} flush>${deliveries.length ? html`<${Deliveries} rows=${deliveries} />` : html`<${None} waiting=${webhook.waitingMessages} />`}<//>
      `}
    <//>
  `;
}

/** @param {{ waiting: number }} props */
const None = ({ waiting }) => html`
  <${Empty} title="No deliveries yet"><p>${waiting ? "Messages are pending." : "The last 100 delivery attempts appear here with their results."}</p><//>
`;

/** @param {{ rows: any[] }} props */
function Deliveries({ rows }) {
  const columns = [
    { name: "Time", cell: (/** @type {any} */ d) => html`<${Ago} at=${d.at} />` },
    {
      name: "Event", main: true,
      cell: (/** @type {any} */ d) => html`<span title=${d.eventId}>${EVENTS[d.eventType] ?? d.eventType}</span>${d.experimentId && html`: <a href=${link(`/experiments/${d.experimentId}`)}>experiment ${d.experimentId}</a>`}`,
    },
    { name: "Attempt", right: true, cell: (/** @type {any} */ d) => d.attempt },
    { name: "Result", wrap: true, cell: (/** @type {any} */ d) => html`<span class=${d.arrived ? "state green" : "state red"}>${d.arrived ? "delivered" : d.nextAt ? "failed" : "gave up"}</span>${!d.arrived && html` <span class="soft">${d.failure}</span>`}` },
    { name: "Next attempt", right: true, cell: (/** @type {any} */ d) => (d.nextAt ? moment(d.nextAt) : "") },
  ];
  return html`<${Table} label="Deliveries" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} />`;
}
