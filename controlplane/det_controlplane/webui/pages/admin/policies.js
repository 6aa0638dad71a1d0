// Config policies of the cluster and of workspaces.
import { get, send } from "../../lib/api.js";
import { useLive } from "../../lib/live.js";
import { may, mayDemand } from "../../lib/rights.js";
import { ask, place, useUnsavedText } from "../../lib/router.js";
import { html, useState } from "../../lib/view.js";
import { workspaces } from "../../lib/workspaces.js";
import { yaml } from "../../lib/yaml.js";
import { Button, Loaded, Panel } from "../../parts/basic.js";
import { useChecked, Verdict } from "../../parts/checked.js";
import { Code } from "../../parts/fields.js";
import { AskDelete, attempt } from "../../parts/overlay.js";
import { Area, NoPlace } from "./area.js";

const CLUSTER = "0";
/** @type {[string, string, string, string][]} workload, title, what may be written, an example */
const KINDS = [
  ["experiment", "Experiments", "constraints and invariant_config", "constraints:\n  resources:\n    max_slots: 16\ninvariant_config:\n  max_restarts: 3\n"],
  ["tasks", "Notebooks, shells, commands, TensorBoards", "constraints", "constraints:\n  resources:\n    max_slots: 1\n"],
];

export function Page() {
  const places = useLive(workspaces, []);
  return html`
    <${Area} at="/admin/policies" text="Rules enforced on every configuration">
      <${Loaded} of=${places}>${(/** @type {{ id: number, name: string }[]} */ found) => html`<${Places} of=${found} />`}<//>
    <//>
  `;
}

/** @param {{ of: { id: number, name: string }[] }} props */
function Places({ of }) {
  const own = of.filter((w) => mayDemand(w.id));
  const places = /** @type {[string, string][]} */ ([...(may("MODIFY_GLOBAL_CONFIG_POLICIES") ? [[CLUSTER, "The whole cluster"]] : []), ...own.map((w) => [String(w.id), w.name])]);
  const asked = place.value.query.get("in") ?? "";
  const at = (asked ? places.find(([id]) => id === asked) : places[0])?.[0];
  if (at === undefined) return html`<${NoPlace} at="/admin/policies" />`;
  /** @param {any} e */
  const choose = (e) => {
    const scope = e.target.value;
    e.target.value = at; // until the user has agreed to lose unsaved changes
    ask({ in: scope });
  };
  const path = at === CLUSTER ? "/api/v1/config-policies/global" : `/api/v1/config-policies/workspaces/${at}`;
  return html`
    <div>
      <select class="input inline" aria-label="Scope" value=${at} onChange=${choose}>
        ${places.map(([id, shown]) => html`<option value=${id} selected=${id === at}>${shown}</option>`)}
      </select>
    </div>
    ${KINDS.map(([kind, title, parts, example]) => html`<${Policies} key=${`${path}/${kind}`} path=${`${path}/${kind}`} title=${title} parts=${parts} example=${example} />`)}
  `;
}

/** @param {{ path: string, title: string, parts: string, example: string }} props */
function Policies(props) {
  const found = useLive(async (signal) => (await get(props.path, {}, { signal })).configPolicies, []);
  return html`
    <${Panel} title=${props.title}>
      <${Loaded} of=${found} lines=${3}>${(/** @type {any} */ now) => html`<${Editor} key=${JSON.stringify(now)} ...${props} was=${yaml(now)} reload=${found.reload} />`}<//>
    <//>
  `;
}

/** @param {{ path: string, title: string, parts: string, example: string, was: string, reload: () => Promise<void> }} props */
function Editor({ path, title, parts, example, was, reload }) {
  const [policies, setPolicies] = useState(was);
  const [sure, setSure] = useState(false);
  const empty = !policies.trim();
  const checked = useChecked(async (signal) => {
    if (!empty) await send("PUT", path, { configPolicies: policies, validateOnly: true }, { signal });
    return "";
  }, [policies]);
  const { changed, saved } = useUnsavedText(policies, was);
  const save = () => attempt(() => send("PUT", path, { configPolicies: policies }).then(saved), "Saved. Applies to new submissions.").then((done) => (done ? reload() : undefined));
  return html`
    <div class="stack">
      <${Code} label="Policies, in YAML" hint=${`Allowed keys: ${parts}`} short value=${policies} set=${setPolicies} bad=${!!checked.problems} placeholder=${example} />
      ${changed && !empty && html`<${Verdict} of=${checked} />`}
      <div class="row">
        <${Button} kind="primary" disabled=${!changed || empty || !checked.fits} onClick=${save}>Save<//>
        ${changed && html`<${Button} onClick=${() => setPolicies(was)}>Discard changes<//>`}
        ${!was && empty && html`<${Button} onClick=${() => setPolicies(example)}>Insert example<//>`}
        ${was && html`<${Button} kind="danger" onClick=${() => setSure(true)}>Delete<//>`}
      </div>
    </div>
    ${sure && html`<${AskDelete} what=${`the policies of ${title.toLowerCase()}`} path=${path} onDone=${reload} onClose=${() => setSure(false)}>New submissions are no longer checked. Running work is not affected.<//>`}
  `;
}
