// Views of a table that their user has named: filters, sorting and columns, kept by the cluster.
import { get, post } from "../lib/api.js";
import { useLive } from "../lib/live.js";
import { go, place } from "../lib/router.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Field, Failure, Icon } from "./basic.js";
import { Ask, Dialog, Menu, tell } from "./overlay.js";

/**
 * @typedef {{ name: string, query: string }} View
 * @typedef {{ path: string, storagePath: string, kept: string[] }} ViewedTable the page of a table, the key of its stored views, and the parameters of the address that belong to a view
 */

const KEY = "views";

/** Return the parameters of a view in a fixed order. @param {URLSearchParams} query @param {ViewedTable} of */
function queryOf(query, of) {
  const kept = new URLSearchParams();
  for (const name of of.kept) if (query.has(name)) kept.set(name, query.get(name) ?? "");
  return kept.toString();
}

/** @param {ViewedTable} of @param {AbortSignal} [signal] @returns {Promise<View[]>} */
async function stored(of, signal) {
  const { settings } = await get("/api/v1/users/setting", {}, { signal });
  const found = settings.find((/** @type {any} */ s) => s.key === KEY && s.storagePath === of.storagePath);
  try {
    const views = JSON.parse(found?.value || "[]");
    return Array.isArray(views) ? views.filter((v) => typeof v?.name === "string" && typeof v?.query === "string") : [];
  } catch {
    return [];
  }
}

/** Change the views as they are now: another tab may have changed them meanwhile. @param {ViewedTable} of @param {(views: View[]) => View[]} change */
async function keep(of, change) {
  const value = JSON.stringify(change(await stored(of)));
  await post("/api/v1/users/setting", { setting: { key: KEY, storagePath: of.storagePath, value } });
}

/** @param {{ of: ViewedTable }} props */
export function Views({ of }) {
  const views = useLive((signal) => stored(of, signal), [of.storagePath]);
  const [open, setOpen] = useState("");
  const now = queryOf(place.value.query, of);
  const known = views.data ?? [];
  const items = [
    ...known.map((v) => ({ name: `${v.query === now ? "✓ " : ""}${v.name}`, act: () => go(`${of.path}${v.query && `?${v.query}`}`) })),
    { name: "Save this view", icon: "plus", act: () => setOpen("save") },
    known.length > 0 && { name: "Rename or delete views", icon: "gear", act: () => setOpen("manage") },
  ];
  return html`
    <${Menu} label="Views" text=${known.find((v) => v.query === now)?.name ?? "Views"} items=${items} />
    ${open === "save" && html`<${Save} of=${of} query=${now} known=${known} onClose=${() => setOpen("")} onDone=${views.reload} />`}
    ${open === "manage" && html`<${Manage} of=${of} known=${known} onClose=${() => setOpen("")} onDone=${views.reload} />`}
  `;
}

/** @param {{ of: ViewedTable, query: string, known: View[], onClose: () => void, onDone: () => Promise<void> }} props */
function Save({ of, query, known, onClose, onDone }) {
  const [name, setName] = useState("");
  const taken = known.some((v) => v.name === name.trim());
  const act = async () => {
    const view = { name: name.trim(), query };
    await keep(of, (views) => [...views.filter((v) => v.name !== view.name), view].sort((a, b) => a.name.localeCompare(b.name)));
    await onDone();
    tell(`Saved the view ${view.name}`);
  };
  return html`
    <${Ask} title="Save this view" act=${taken ? "Replace" : "Save"} off=${!name.trim()} onAct=${act} onClose=${onClose}>
      <p class="soft">Saves the current filters, sorting and columns to your account.</p>
      <${Field} label="Name" hint=${taken ? "A view with this name exists and will be replaced." : ""}>
        <input class="input" maxlength="80" value=${name} onInput=${(/** @type {any} */ e) => setName(e.target.value)} />
      <//>
    <//>
  `;
}

/** @param {{ of: ViewedTable, known: View[], onClose: () => void, onDone: () => Promise<void> }} props */
function Manage({ of, known, onClose, onDone }) {
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  /** @param {(views: View[]) => View[]} how */
  const change = (how) => keep(of, how).then(onDone, setError);
  /** @param {View} view @param {string} name */
  const rename = (view, name) => name && name !== view.name && !known.some((v) => v.name === name) && change((views) => views.map((v) => (v.name === view.name ? { ...v, name } : v)));
  return html`
    <${Dialog} title="Views" onClose=${onClose}>
      ${known.length ? "" : html`<${Empty} title="No views" />`}
      <ul class="stack">
        ${known.map(
          (v) => html`
            <li class="row row-wide" key=${v.query + v.name}>
              <input class="input grow" aria-label=${`Name of ${v.name}`} maxlength="80" value=${v.name} onChange=${(/** @type {any} */ e) => rename(v, e.target.value.trim())} />
              <${Button} kind="plain square" aria-label=${`Delete ${v.name}`} onClick=${() => change((views) => views.filter((o) => o.name !== v.name))}><${Icon} name="close" /><//>
            </li>
          `,
        )}
      </ul>
      <${Failure} error=${error} />
      <div class="dialog-foot"><${Button} onClick=${onClose}>Close<//></div>
    <//>
  `;
}
