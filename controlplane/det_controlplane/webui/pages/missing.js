// A path without a page. Paths of Determined's pages with another name here redirect, because its links, bookmarks and
// command line use them.
import { go, place } from "../lib/router.js";
import { html, useEffect } from "../lib/view.js";
import { Bones, Button, Head } from "../parts/basic.js";

/** @type {Record<string, string>} kinds of tasks, by what Determined calls them in addresses */
const TASKS = { notebook: "notebooks?|jupyter-?lab", tensorboard: "tensor-?boards?", command: "commands?", shell: "shells?", generic: "generic-?(?:task)?s?" };

/** @type {[RegExp, string][]} address, where its page is; the first that fits counts */
const MOVED = [
  [/^\/experiments\/(\d+)\/trials\/(\d+)(\/[\w-]+)?.*$/, "/trials/$2$3"],
  [/^\/experiments\/(\d+)(\/[\w-]+)\/.*$/, "/experiments/$1$2"],
  [/^\/searches\/(\d+)(\/[\w-]+)?.*$/, "/experiments/$1$2"],
  [/^\/trials\/(\d+)(\/[\w-]+)\/.*$/, "/trials/$1$2"],
  [/^\/projects\/(\d+)(\/.*)?$/, "/experiments?project=$1"],
  [/^\/uncategorized(\/.*)?$/, "/experiments"],
  [/^\/workspaces\/\d+\/models(\/.*)?$/, "/models"],
  [/^\/workspaces\/\d+\/tasks(\/.*)?$/, "/tasks"],
  [/^\/workspaces\/.*$/, "/workspaces"],
  [/^\/jobs(\/.*)?$/, "/queue"],
  [/^\/resourcepool\/([^/]+)(\/.*)?$/, "/queue/$1"],
  [/^\/(clusters?|resourcepool|logs)(\/.*)?$/, "/cluster"],
  [/^\/models\/([^/]+)\/.*$/, "/models/$1"],
  [/^\/(login|reset)(\/.*)?$/, "/sign-in"],
  [/^\/logout(\/.*)?$/, "/sign-out"],
  [/^\/admin\/.*$/, "/admin"],
  [/^\/settings\/.*$/, "/settings"],
  ...Object.entries(TASKS).flatMap(([kind, names]) => /** @type {[RegExp, string][]} */ ([
    // `det notebook open` of Determined: its page waits until the notebook serves, and shows it.
    [new RegExp(`^/interactive/([^/]+)/(?:${names})/.*$`), `/tasks/${kind}/$1?open=1`],
    [new RegExp(`^/wait/(?:${names})/([^/]+).*$`), `/tasks/${kind}/$1?open=1`],
    [new RegExp(`^/(?:tasks/)?(?:${names})/([^/]+)(?:/.*)?$`), `/tasks/${kind}/$1`],
  ])),
];

/** Return where the page of another address is, or nothing. @param {string} path below /det */
function moved(path) {
  for (const [from, to] of MOVED) if (from.test(path)) return path.replace(from, to);
  return "";
}

export function Page() {
  const elsewhere = moved(place.value.path);
  useEffect(() => {
    if (elsewhere) go(elsewhere, { replace: true });
  }, [elsewhere]);
  if (elsewhere) return html`<${Bones} />`;
  return html`
    <${Head} title="Page not found" text="Check the URL; it may belong to another version.">
      <${Button} kind="primary" href="/det/dashboard">Go home<//>
    <//>
  `;
}
