// Where a person is signed in; ending that.
import { get, send } from "../lib/api.js";
import { counted, moment } from "../lib/format.js";
import { useLive } from "../lib/live.js";
import { signedOut, user } from "../lib/session.js";
import { html, useState } from "../lib/view.js";
import { Button, Empty, Loaded, Panel } from "./basic.js";
import { Ask, attempt, tell } from "./overlay.js";
import { Table } from "./table.js";
import { Ago } from "./time.js";

/** @type {[RegExp, string][]} in this order, as browsers claim to be others, too */
const BROWSERS = [[/Edg\//, "Edge"], [/OPR\//, "Opera"], [/Firefox\//, "Firefox"], [/Chrome\//, "Chrome"], [/Safari\//, "Safari"]];
/** @type {[RegExp, string][]} */
const SYSTEMS = [[/Android/, "Android"], [/iPhone|iPad/, "iOS"], [/Windows/, "Windows"], [/Mac OS/, "macOS"], [/CrOS/, "ChromeOS"], [/Linux/, "Linux"]];

/** Return what a person calls the program that said its name. @param {string} program */
export function programName(program) {
  const browser = program.startsWith("Mozilla/") && BROWSERS.find(([sign]) => sign.test(program))?.[1];
  const system = SYSTEMS.find(([sign]) => sign.test(program))?.[1];
  return browser ? `${browser}${system ? ` on ${system}` : ""}` : program || "unknown";
}

/** @param {{ of: { id: number, username: string } }} props */
export function Sessions({ of }) {
  const [ending, setEnding] = useState(false);
  const path = `/api/v1/users/${of.id}/sessions`;
  const own = of.id === user.value?.id;
  const found = useLive(async (signal) => (await get(path, {}, { signal })).sessions, [of.id]);
  const end = async (/** @type {any} */ s) => {
    if (s.current) return void attempt(async () => (await send("DELETE", `${path}/${s.id}`), signedOut()), "Signed out");
    await attempt(() => send("DELETE", `${path}/${s.id}`), "Session ended");
    await found.reload();
  };
  const others = (found.data ?? []).filter((/** @type {any} */ s) => !s.current).length;
  const columns = [
    { name: "Program", main: true, cell: (/** @type {any} */ s) => html`<span title=${s.program}>${programName(s.program)}</span>${s.current && html` <span class="state green">This session</span>`}` },
    { name: "Address", cell: (/** @type {any} */ s) => s.address || html`<span class="faint">unknown</span>` },
    { name: "Signed in", right: true, cell: (/** @type {any} */ s) => html`<${Ago} at=${s.createdAt} />` },
    { name: "Expires", right: true, cell: (/** @type {any} */ s) => (s.expiresAt ? moment(s.expiresAt) : "never") },
    { name: "", right: true, cell: (/** @type {any} */ s) => html`<${Button} aria-label=${`Sign out session ${s.id}, ${programName(s.program)}`} onClick=${() => end(s)}>Sign out<//>` },
  ];
  return html`
    <${Panel} title=${own ? "Your active sessions" : "Active sessions"} flush
      actions=${others > 0 && html`<${Button} onClick=${() => setEnding(true)}>${own ? "Sign out everywhere else" : "End all sessions"}<//>`}>
      <${Loaded} of=${found} lines=${2}>
        ${(/** @type {any[]} */ rows) =>
          rows.length
            ? html`<${Table} label="Sessions" columns=${columns} total=${rows.length} row=${(/** @type {number} */ i) => rows[i]} />`
            : html`<${Empty} title="No active sessions"><p>${of.username} is not signed in.</p><//>`}
      <//>
    <//>
    ${ending &&
    html`
      <${Ask} title=${own ? "Sign out everywhere else?" : `Sign ${of.username} out everywhere?`} act="Sign out" danger onClose=${() => setEnding(false)}
        onAct=${async () => {
          const { ended } = await send("DELETE", path);
          await found.reload();
          tell(`Ended ${counted(ended, "session", "sessions")}`);
        }}>
        <p class="soft">Browsers and command lines must sign in again. Access tokens and running work are not affected.</p>
      <//>
    `}
  `;
}
