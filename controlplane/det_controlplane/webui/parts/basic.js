// The small parts of every page.
import { useHeading } from "../lib/page_titles.js";
import { stateColour, stateName } from "../lib/format.js";
import { html, useEffect, useRef } from "../lib/view.js";

/** Lines of 24 × 24 drawings. @type {Record<string, string>} */
const ICONS = {
  home: "M4 11l8-7 8 7v8a1 1 0 0 1-1 1h-5v-6h-4v6H5a1 1 0 0 1-1-1z",
  flask: "M10 3v6l-5.5 9A2 2 0 0 0 6.2 21h11.6a2 2 0 0 0 1.7-3L14 9V3M8 3h8M7.5 15h9",
  queue: "M4 6h16M4 12h16M4 18h10",
  server: "M4 5h16v6H4zM4 13h16v6H4zM7.5 8h.01M7.5 16h.01",
  box: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  folder: "M3 6.5A1.5 1.5 0 0 1 4.5 5H9l2 2.5h8.5A1.5 1.5 0 0 1 21 9v8.5a1.5 1.5 0 0 1-1.5 1.5h-15A1.5 1.5 0 0 1 3 17.5z",
  people: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20a6.5 6.5 0 0 1 13 0M16 4.5a3.5 3.5 0 0 1 0 6.5M17.5 14a6.5 6.5 0 0 1 4 6",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15zM10 21h4",
  coin: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM14.8 9.2c-.5-1-1.5-1.5-2.8-1.5-1.600 0-2.8.8-2.8 2.100 0 2.900 5.800 1.400 5.800 4.400 0 1.300-1.200 2.200-3 2.200-1.500 0-2.700-.6-3.200-1.700M12 6v1.700M12 16.400V18",
  list: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01",
  file: "M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6",
  gear: "M12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM19 12l2-1-1-3-2.200.2-1.500-1.500L16.500 4l-3-1-1.500 2-1.500-2-3 1 .2 2.700L6.200 8.200 4 8l-1 3 2 1-2 1 1 3 2.200-.2 1.500 1.500L7.500 20l3 1 1.500-2 1.500 2 3-1-.2-2.700 1.500-1.500 2.200.2 1-3z",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  more: "M4.3 12a.7.7 0 1 0 1.4 0 .7.7 0 1 0-1.4 0M11.3 12a.7.7 0 1 0 1.4 0 .7.7 0 1 0-1.4 0M18.3 12a.7.7 0 1 0 1.4 0 .7.7 0 1 0-1.4 0",
  down: "M6 9l6 6 6-6",
  up: "M6 15l6-6 6 6",
  pause: "M8 5v14M16 5v14",
  play: "M7 5l12 7-12 7z",
  stop: "M6 6h12v12H6z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  plus: "M12 5v14M5 12h14",
  top: "M5 4h14M12 20V9M7 13l5-5 5 5",
  columns: "M4 5h16v14H4zM10 5v14M15 5v14",
};

/** @param {{ name: string }} props */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

/** @param {{ kind?: string, icon?: string, href?: string, children?: any, [more: string]: any }} props */
export function Button({ kind = "", icon, href, children, ...more }) {
  const inner = html`${icon && html`<${Icon} name=${icon} />`}${children}`;
  const cls = `button ${kind}`;
  return href ? html`<a class=${cls} href=${href} ...${more}>${inner}</a>` : html`<button type="button" class=${cls} ...${more}>${inner}</button>`;
}

/** A button that is pressed or not. @param {{ on: boolean, children?: any, [more: string]: any }} props */
export const Toggle = ({ on, children, ...more }) => html`<${Button} kind=${on ? "on" : ""} aria-pressed=${String(on)} ...${more}>${children}<//>`;

/** @param {{ state: string }} props */
export const State = ({ state }) => html`<span class=${`state ${stateColour(state)}`}>${stateName(state)}</span>`;

/** @param {{ title: any, text?: any, beside?: any, children?: any }} props */
export function Head({ title, text, beside, children }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useHeading(String(title), box);
  return html`
    <header class="head">
      <div class="head-text">
        <div class="head-line"><h1 tabindex="-1" ref=${box}>${title}</h1>${beside}</div>
        ${text && html`<p aria-live="polite">${text}</p>`}
      </div>
      <div class="row">${children}</div>
    </header>
  `;
}

/** @param {{ title?: any, actions?: any, flush?: boolean, children?: any }} props */
export const Panel = ({ title, actions, flush, children }) => html`
  <section class="panel">
    ${(title || actions) && html`<div class="panel-head"><h2>${title}</h2>${actions && html`<div class="row">${actions}</div>`}</div>`}
    ${flush ? children : html`<div class="panel-body">${children}</div>`}
  </section>
`;

/** @param {{ of: [string, any, any?][] }} props names, values and notes */
export const Figures = ({ of }) => html`
  <dl class="figures">
    ${of.map(
      ([name, value, note]) => html`
        <div class="figure"><dt>${name}</dt><dd>${value}${note && html`<div class="note">${note}</div>`}</dd></div>
      `,
    )}
  </dl>
`;

/** @param {{ of: [string, any][] }} props */
export const Pairs = ({ of }) => html`
  <dl class="pairs">${of.map(([name, value]) => html`<dt>${name}</dt><dd>${value ?? "–"}</dd>`)}</dl>
`;

/** @param {{ tabs: { name: string, href: string, chosen: boolean }[], label: string }} props */
export function Tabs({ tabs, label }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const chosen = tabs.find((tab) => tab.chosen)?.href;
  // On a phone some lie beyond the edge.
  useEffect(() => {
    const tab = /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector("[aria-current]"));
    if (box.current && tab) box.current.scrollLeft = tab.offsetLeft - box.current.offsetLeft - (box.current.clientWidth - tab.offsetWidth) / 2;
  }, [chosen]);
  return html`
    <nav class="tabs" aria-label=${label} ref=${box}>
      ${tabs.map((tab) => html`<a href=${tab.href} aria-current=${tab.chosen ? "page" : undefined}>${tab.name}</a>`)}
    </nav>
  `;
}

/** @param {{ title: string, children?: any }} props */
export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

/** @param {{ lines?: number }} props */
export const Bones = ({ lines = 6 }) => html`
  <div class="bones" role="status" aria-label="Loading">
    ${Array.from({ length: lines }, (_, i) => html`<div class="bone" style=${{ width: `${[92, 64, 78, 55, 85, 70][i % 6]}%` }} />`)}
  </div>
`;

/** @param {{ error?: Error, retry?: () => void, children?: any }} props */
export function Failure({ error, retry, children }) {
  if (!error) return null;
  return html`
    <div class="notice red" role="alert">
      <p>${error.message}${children}</p>
      ${retry && html`<${Button} onClick=${retry}>Try again<//>`}
    </div>
  `;
}

/** Show the details and the next step of a failure. @param {{ of: import("../lib/why.js").Reason | undefined }} props */
export function FailureDetails({ of }) {
  if (!of?.details) return of?.nextStep ? html`<p>Next step: ${of.nextStep}.</p>` : null;
  return html`
    <details class="failure">
      <summary>Details</summary>
      <p>${of.details}</p>
      ${of.nextStep && html`<p>Next step: ${of.nextStep}.${of.needsNewCode && " Another run of the same code fails in the same way."}</p>`}
    </details>
  `;
}

// The statuses of a missing object, of a wrong identifier, and of an object without access.
const MISSING = [400, 403, 404];

/**
 * Show what loads, fails or is there; where that is a whole page, it is called `title` when it fails.
 * A missing object links to its list: an address below /det and a name.
 * @param {{ of: import("../lib/live.js").Live<any>, children: (data: any) => any, lines?: number, title?: string, list?: [string, string] }} props
 */
export function Loaded({ of, children, lines, title, list }) {
  if (of.data === undefined) {
    const { status = 0 } = /** @type {any} */ (of.error ?? {});
    if (list && MISSING.includes(status)) {
      return html`<${Head} title=${title}><${Button} kind="primary" href=${`/det${list[0]}`}>${list[1]}<//><//><${Failure} error=${of.error} />`;
    }
    return of.error ? html`${title && html`<${Head} title=${title} />`}<${Failure} error=${of.error} retry=${of.reload} />` : html`<${Bones} lines=${lines} />`;
  }
  return html`<${Failure} error=${of.error} retry=${of.reload} />${children(of.data)}`;
}

/** @param {{ label: string, hint?: any, error?: string, children: any }} props a label around one input */
export const Field = ({ label, hint, error, children }) => html`
  <label class="field">
    <span>${label}</span>
    ${children}
    ${hint && html`<small class="hint">${hint}</small>`}
    ${error && html`<small class="hint" role="alert">${error}</small>`}
  </label>
`;

/** @param {{ value: string, onInput: (text: string) => void, label: string, placeholder?: string }} props */
export const Search = ({ value, onInput, label, placeholder = label }) => html`
  <div class="search">
    <${Icon} name="search" />
    <input class="input" type="search" aria-label=${label} placeholder=${placeholder} value=${value}
      onInput=${(/** @type {any} */ e) => onInput(e.target.value)} />
  </div>
`;

/** @param {{ value: number, what?: string }} props of 1 */
export const Progress = ({ value, what = "done" }) => html`<progress class="progress" max="1" value=${value} aria-label=${`${Math.round(value * 100)} % ${what}`} />`;
