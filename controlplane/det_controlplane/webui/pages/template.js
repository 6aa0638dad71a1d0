// One template, and its configuration to edit.
import { get, send } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { may } from "../lib/rights.js";
import { go, useUnsavedText } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { workspaces } from "../lib/workspaces.js";
import { yaml } from "../lib/yaml.js";
import { Button, Head, Loaded, Panel } from "../parts/basic.js";
import { useChecked, Verdict } from "../parts/checked.js";
import { Code, Line } from "../parts/fields.js";
import { Ask, AskDelete, attempt, Menu } from "../parts/overlay.js";
import { checkedConfig } from "./templates.js";

/** @param {{ name: string }} props */
export function Page({ name }) {
  const path = `/api/v1/templates/${encodeURIComponent(name)}`;
  const found = useLive(
    async (signal) => {
      const [{ template }, places] = await Promise.all([get(path, {}, { signal }), workspaces(signal)]);
      return { template, place: places.find((w) => w.id === template.workspaceId)?.name ?? "" };
    },
    [name],
  );
  return html`<${Loaded} of=${found} title=${name} list=${["/templates", "All templates"]}>${(/** @type {any} */ data) => html`<${Template} key=${name} ...${data} path=${path} reload=${found.reload} />`}<//>`;
}

/** @param {{ template: any, place: string, path: string, reload: () => Promise<void> }} props */
function Template({ template, place, path, reload }) {
  const was = yaml(template.config);
  // Until the user types, show the stored text, also if another user changes it.
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  const config = typed ?? was;
  const [open, setOpen] = useState("");
  const checked = useChecked((signal) => checkedConfig(config, signal), [config]);
  const { changed, release, saved } = useUnsavedText(config, was);
  const edits = may("UPDATE_TEMPLATES", template.workspaceId);
  const items = [
    edits && { name: "Rename", act: () => setOpen("rename") },
    may("DELETE_TEMPLATES", template.workspaceId) && { name: "Delete", danger: true, act: () => setOpen("delete") },
  ];
  const save = async () => {
    const done = await attempt(() => send("PUT", path, { config }).then(saved), "Saved");
    if (!done) return;
    await reload();
    setTyped((now) => (now === config ? null : now));
  };
  const foot = html`
    <div class="row">
      <${Button} kind="primary" disabled=${!changed || !checked.fits} onClick=${save}>Save<//>
      <${Button} disabled=${!changed} onClick=${() => setTyped(null)}>Discard changes<//>
    </div>
  `;
  return html`
    <${Head} title=${template.name} text=${place && `Template in ${place}`}>${items.some(Boolean) && html`<${Menu} label="More actions" items=${items} />`}<//>
    <div class="stack">
      <${Panel}>
        <div class="stack">
          <${Code} label="Configuration, in YAML" value=${config} set=${setTyped} bad=${!!checked.problems} readonly=${!edits} />
          ${edits && html`<${Verdict} of=${checked} />${foot}`}
        </div>
      <//>
      <p class="soft">A configuration submitted with <code>--template ${template.name}</code> overrides these values.</p>
    </div>
    ${open === "rename" && html`<${Rename} name=${template.name} onClose=${() => setOpen("")} />`}
    ${open === "delete" && html`<${AskDelete} what=${template.name} path=${path} onDone=${() => (release(), go("/templates"))} onClose=${() => setOpen("")}>Existing experiments do not change. New submissions that use this template are rejected.<//>`}
  `;
}

/** @param {{ name: string, onClose: () => void }} props */
function Rename({ name, onClose }) {
  const [to, setTo] = useState(name);
  const act = async () => {
    await send("PATCH", "/api/v1/template/rename", { oldName: name, newName: to });
    go(`/templates/${encodeURIComponent(to.trim())}`, { replace: true });
  };
  return html`
    <${Ask} title=${`Rename ${name}`} act="Save" off=${!to.trim()} onAct=${act} onClose=${onClose}>
      <${Line} label="Name" hint="Submissions that use the old name are rejected." value=${to} set=${setTo} />
    <//>
  `;
}
