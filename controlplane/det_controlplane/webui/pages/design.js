// All design elements on one page, for authors of new pages.
import { html, useState } from "../lib/view.js";
import { Bones, Button, Empty, Failure, Field, Figures, Head, Pairs, Panel, Progress, Search, State, Tabs } from "../parts/basic.js";
import { Chart } from "../parts/chart.js";
import { Ask, Dialog, Menu, tell } from "../parts/overlay.js";
import { Table } from "../parts/table.js";

const COLOURS = ["ground", "surface", "sunken", "line", "ink", "ink-soft", "ink-faint", "accent", "accent-soft", "green", "blue", "amber", "red"];
const STATES = ["ACTIVE", "PAUSED", "COMPLETED", "ERROR", "CANCELED", "QUEUED", "STOPPING_CANCELED"];
const STEPS = Array.from({ length: 60 }, (_, i) => i * 10);
const CURVES = [1, 2, 3].map((n) => ({ name: `Trial ${n}`, x: STEPS, y: STEPS.map((s) => 1 / (1 + s / (60 * n)) + Math.sin(s / 9 + n) / 60) }));

export function Page() {
  const [open, setOpen] = useState("");
  const [text, setText] = useState("");
  return html`
    <${Head} title="Design" text="Components of the WebUI"><${Button} onClick=${() => tell("A short message", { undo: () => tell("Undone") })}>Message<//><//>
    <div class="stack">
      <${Panel} title="Colours"><ul class="palette">${COLOURS.map((c) => html`<li><span class="patch" style=${{ background: `var(--${c})` }} /><code>${c}</code></li>`)}</ul><//>
      <div class="columns">
        <${Panel} title="Type">
          <div class="stack"><h1>A page title</h1><h2>A panel title</h2><p>Explanatory text.</p><p class="soft">Supporting text.</p><p class="faint small">Secondary details.</p><p><code>code</code> <kbd>Ctrl</kbd> <kbd>K</kbd></p></div>
        <//>
        <${Panel} title="Buttons">
          <div class="row"><${Button} kind="primary">Primary<//><${Button}>Ordinary<//><${Button} kind="danger">Danger<//><${Button} kind="plain">Plain<//><${Button} disabled>Disabled<//><${Button} icon="pause">Pause<//>
          <${Menu} label="A menu" items=${[{ name: "One", act: () => tell("One") }, { name: "Danger", danger: true, act: () => tell("Two", { bad: true }) }]} />
          <${Button} onClick=${() => setOpen("dialog")}>Dialog<//><${Button} onClick=${() => setOpen("ask")}>Question<//></div>
        <//>
        <${Panel} title="States"><div class="row">${STATES.map((s) => html`<${State} state=${s} />`)}<span class="label">label</span></div><br /><${Progress} value=${0.4} /><//>
        <${Panel} title="Fields">
          <div class="stack"><${Search} label="Search" value=${text} onInput=${setText} /><${Field} label="Name" hint="Shown to others"><input class="input" /><//><${Field} label="Choice"><select class="input"><option>One</option><option>Two</option></select><//></div>
        <//>
      </div>
      <${Figures} of=${[["Slots in use", "12 of 16", html`<${Progress} value=${0.75} />`], ["Cost", "$12.40", "today"], ["Trials", "128"]]} />
      <${Panel} title="Curves"><${Chart} curves=${CURVES} label="An example" x="batches" height=${220} /><//>
      <div><${Tabs} label="Example" tabs=${[{ name: "Overview", href: "#", chosen: true }, { name: "Trials", href: "#", chosen: false }]} /><${Panel} flush>
        <${Table} label="Example" columns=${[{ name: "Name", main: true, cell: (/** @type {any} */ r) => r.name }, { name: "State", cell: (/** @type {any} */ r) => html`<${State} state=${r.state} />` }, { name: "Value", right: true, cell: (/** @type {any} */ r) => r.id }]} total=${3} row=${(/** @type {number} */ i) => ({ id: i + 1, name: `Row ${i + 1}`, state: STATES[i] })} />
      <//></div>
      <div class="columns"><${Panel} title="Pairs"><${Pairs} of=${[["Name", "digits"], ["Started", "3 min ago"]]} /><//><div class="example"><${Panel} title="Loading" flush><${Bones} lines=${3} /><//></div></div>
      <${Failure} error=${new Error("The cluster is not responding. Retrying automatically.")} retry=${() => {}} />
      <div class="notice"><p>Useful information.</p></div><div class="notice amber"><p>A warning.</p></div><div class="notice green"><p>Everything works.</p></div>
      <div class="panel"><${Empty} title="No examples yet"><p>Explain what appears here and how to create it.</p><//></div>
    </div>
    ${open === "dialog" && html`<${Dialog} title="A dialog" onClose=${() => setOpen("")}><p>Escape closes it.</p><//>`}
    ${open === "ask" && html`<${Ask} title="Do it?" act="Do it" onAct=${async () => tell("Done")} onClose=${() => setOpen("")}><p class="soft">Explain the result of the action.</p><//>`}
  `;
}
