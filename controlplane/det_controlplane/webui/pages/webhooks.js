// Webhooks: addresses that receive messages about events.
import { get, post, send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { isAdmin, may, maySomewhere } from "../lib/rights.js";
import { go } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { usual, workspaces } from "../lib/workspaces.js";
import { Button, Empty, Head, Loaded, Panel } from "../parts/basic.js";
import { Choice, Line, Tick } from "../parts/fields.js";
import { Ask, AskDelete, attempt, Menu } from "../parts/overlay.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";

const LIVE_MS = 8_000;
const [STATE, LOG, ALERT] = ["TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "TRIGGER_TYPE_TASK_LOG", "TRIGGER_TYPE_CUSTOM"];
const BUDGETS = { triggerType: ALERT, condition: { subject: "budget" } };
const STRAGGLERS = { triggerType: ALERT, condition: { subject: "straggler" } };
const DEADLINES = { triggerType: ALERT, condition: { subject: "deadline" } };
/** @type {Record<string, string>} */
const SUBJECTS = { budget: "budgets", straggler: "slow ranks", deadline: "deadlines in danger" };
const ALL = "0";

/** @param {AbortSignal} signal */
async function everything(signal) {
  const [{ webhooks }, places] = await Promise.all([get("/api/v1/webhooks", { limit: -1 }, { signal }), workspaces(signal)]);
  return { webhooks, places };
}

export function Page() {
  const found = useLive(everything, [], LIVE_MS);
  const [open, setOpen] = useState(/** @type {any} */ (null));
  const close = () => setOpen(null);
  const own = (found.data?.places ?? []).filter((w) => may("EDIT_WEBHOOKS", w.id));
  return html`
    <${Head} title="Webhooks" text="Notify other systems when experiments end, logs match a pattern or code raises an alert">
      ${maySomewhere("EDIT_WEBHOOKS") && html`<${Button} kind="primary" icon="plus" disabled=${!found.data} onClick=${() => setOpen({ what: "new" })}>New webhook<//>`}
    <//>
    <${Panel} flush>
      <${Loaded} of=${found}>
        ${(/** @type {{ webhooks: any[], places: any[] }} */ { webhooks, places }) => (webhooks.length ? html`<${Rows} rows=${webhooks} places=${places} open=${setOpen} reload=${found.reload} />` : html`<${None} />`)}
      <//>
    <//>
    ${open?.what === "new" && html`<${New} places=${own} onClose=${close} onDone=${found.reload} />`}
    ${open?.what === "edit" && html`<${Edit} of=${open.of} onClose=${close} onDone=${found.reload} />`}
    ${open?.what === "delete" && html`<${AskDelete} what=${open.of.name} path=${`/api/v1/webhooks/${open.of.id}`} onDone=${found.reload} onClose=${close}>No more messages are sent, including pending ones. New experiments that reference it in their configuration are rejected.<//>`}
  `;
}

const None = () => html`
  <${Empty} title="No webhooks yet">
    <p>A webhook posts messages to a URL, such as a Slack channel, a pager or your own program. Create one, then select “Test” to send a test message.</p>
  <//>
`;

/** @param {any} t */
const told = (t) => (t.triggerType === STATE ? `${t.condition.state.toLowerCase()} experiments` : t.triggerType === LOG ? `log lines matching ${t.condition.regex}` : SUBJECTS[t.condition.subject] ?? "alerts");

/** @param {{ rows: any[], places: any[], open: (what: any) => void, reload: () => Promise<void> }} props */
function Rows({ rows, places, open, reload }) {
  const test = (/** @type {any} */ w) => attempt(() => post(`/api/v1/webhooks/${w.id}/test`), `${w.name}: test message delivered`);
  const enable = async (/** @type {any} */ w) => {
    const done = `${w.name}: ${w.enabled ? "no messages are sent" : "messages are sent"}`;
    await attempt(() => send("PATCH", `/api/v1/webhooks/${w.id}`, { enabled: !w.enabled }), done);
    await reload();
  };
  const edits = (/** @type {any} */ w) => (w.workspaceId ? may("EDIT_WEBHOOKS", w.workspaceId) : isAdmin());
  const columns = [
    { name: "Webhook", main: true, cell: (/** @type {any} */ w) => html`${w.name}<div class="faint small cut">${w.url}</div>` },
    { name: "Triggers", wrap: true, cell: (/** @type {any} */ w) => html`<span class="soft">${w.triggers.map(told).join(", ")}${w.mode.endsWith("SPECIFIC") ? "; only experiments that reference it" : ""}</span>` },
    { name: "Workspace", cell: (/** @type {any} */ w) => (w.workspaceId ? (places.find((p) => p.id === w.workspaceId)?.name ?? w.workspaceId) : "all") },
    { name: "Messages", wrap: true, cell: (/** @type {any} */ w) => html`${!w.enabled && html`<div class="soft">Disabled</div>`}<${Messages} of=${w} />` },
    {
      name: "", right: true,
      cell: (/** @type {any} */ w) =>
        edits(w) &&
        html`<span class="actions"><${Button} aria-label=${`Test ${w.name}`} onClick=${() => test(w)}>Test<//> <${Menu} label=${`Actions on ${w.name}`} kind="plain" items=${[
          { name: "Deliveries", act: () => go(`/webhooks/${w.id}`) },
          { name: w.enabled ? "Disable" : "Enable", act: () => enable(w) },
          { name: "Edit", act: () => open({ what: "edit", of: w }) },
          { name: "Delete", danger: true, act: () => open({ what: "delete", of: w }) },
        ]} /></span>`,
    },
  ];
  return html`<${Table} label="Webhooks" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} />`;
}

/** @param {{ of: any }} props what arrived, and what did not */
function Messages({ of: w }) {
  const failing = w.lastFailedAt && !(w.lastArrivedAt > w.lastFailedAt);
  return html`
    ${failing && html`<div class="bad">Failed <${Ago} at=${w.lastFailedAt} />${w.lastFailure ? `, ${w.lastFailure}` : ""}</div>`}
    ${w.waitingMessages > 0 && html`<div class="soft">${`${w.waitingMessages} pending`}</div>`}
    ${w.lastArrivedAt && html`<div class="soft">Delivered <${Ago} at=${w.lastArrivedAt} /></div>`}
    ${!failing && !w.lastArrivedAt && html`<span class="faint">none yet</span>`}
  `;
}

/** @param {{ places: { id: number, name: string }[], onClose: () => void, onDone: () => Promise<void> }} props */
function New({ places, onClose, onDone }) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [form, setForm] = useState("DEFAULT");
  const [place, setPlace] = useState(String(usual(places)?.id ?? ALL));
  const [mode, setMode] = useState("WORKSPACE");
  const [completed, setCompleted] = useState(true);
  const [failed, setFailed] = useState(true);
  const [regex, setRegex] = useState("");
  const [alerts, setAlerts] = useState(false);
  const [budgets, setBudgets] = useState(false);
  const [stragglers, setStragglers] = useState(false);
  const [deadlines, setDeadlines] = useState(false);
  const state = (/** @type {string} */ s) => ({ triggerType: STATE, condition: { state: s } });
  const triggers = [
    ...(completed ? [state("COMPLETED")] : []), ...(failed ? [state("ERROR")] : []),
    ...(regex ? [{ triggerType: LOG, condition: { regex } }] : []), ...(alerts && mode === "SPECIFIC" ? [{ triggerType: ALERT, condition: {} }] : []),
    ...(budgets ? [BUDGETS] : []),
    ...(stragglers ? [STRAGGLERS] : []),
    ...(deadlines ? [DEADLINES] : []),
  ];
  const act = async () => {
    await post("/api/v1/webhooks", { name, url: url.trim(), webhookType: `WEBHOOK_TYPE_${form}`, mode: `WEBHOOK_MODE_${mode}`, workspaceId: Number(place), triggers });
    await onDone();
  };
  const of = /** @type {[string, string][]} */ ([...places.map((w) => [String(w.id), w.name]), ...(isAdmin() ? [[ALL, "All workspaces"]] : [])]);
  return html`
    <${Ask} title="New webhook" act="Create" off=${!name.trim() || !url.trim() || !triggers.length} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} autofocus />
      <${Line} label="URL" value=${url} set=${setUrl} type="url" placeholder="https://hooks.example.com/…" />
      <${Choice} label="Format" value=${form} set=${setForm} of=${[["DEFAULT", "JSON"], ["SLACK", "Slack"]]} />
      <${Choice} label="Workspace" value=${place} set=${setPlace} of=${of} />
      <${Choice} label="Experiments" value=${mode} set=${setMode} of=${[["WORKSPACE", "All in the workspace"], ["SPECIFIC", "Only those that reference it in their configuration"]]} />
      <fieldset class="stack"><legend>Triggers</legend>
        <${Tick} label="Completed experiments" value=${completed} set=${setCompleted} />
        <${Tick} label="Failed experiments" value=${failed} set=${setFailed} />
        ${mode === "SPECIFIC" && html`<${Tick} label="Alerts" hint="Raised by training code" value=${alerts} set=${setAlerts} />`}
        <${Tick} label="Budgets" hint="For the workspace and its experiments, at 80 % and 100 %" value=${budgets} set=${setBudgets} />
        <${Tick} label="Slow ranks" hint="When a rank of a trial is slower than the others" value=${stragglers} set=${setStragglers} />
        <${Tick} label="Deadlines" hint="At the last chance, in danger and missed" value=${deadlines} set=${setDeadlines} />
        <${Line} label="Log lines matching" hint="Regex. Leave empty for none." value=${regex} set=${setRegex} />
      </fieldset>
    <//>
  `;
}

/** @param {{ of: any, onClose: () => void, onDone: () => Promise<void> }} props */
function Edit({ of: webhook, onClose, onDone }) {
  const [name, setName] = useState(webhook.name);
  const [url, setUrl] = useState(webhook.url);
  const act = async () => {
    await send("PATCH", `/api/v1/webhooks/${webhook.id}`, { name, url: url.trim() });
    await onDone();
  };
  return html`
    <${Ask} title=${`Edit ${webhook.name}`} act="Save" off=${!name.trim() || !url.trim()} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" value=${name} set=${setName} />
      <${Line} label="URL" hint="Pending messages go to the new URL." value=${url} set=${setUrl} type="url" />
    <//>
  `;
}
