// The WebUI: finds the page for an address, and loads its script when somebody goes there.
import { keepFocus } from "./lib/focus.js";
import { expect, heading, titled, told } from "./lib/page_titles.js";
import { imported } from "./lib/library.js";
import { link, listen, matched, place } from "./lib/router.js";
import { begin, cluster, lapsed, user, visit } from "./lib/session.js";
import { Broken, html, render, useEffect, useLayoutEffect, useRef, useState } from "./lib/view.js";
import { Bones, Button, Failure, Head } from "./parts/basic.js";
import { Frame } from "./parts/frame.js";

/** @type {[string, string, () => Promise<any>][]} pattern, title, the module whose `Page` is shown */
const PAGES = [
  ["/", "Home", () => import("./pages/dashboard.js")],
  ["/dashboard", "Home", () => import("./pages/dashboard.js")],
  ["/experiments", "Experiments", () => import("./pages/experiments.js")],
  ["/compare", "Compare", () => import("./pages/compare.js")],
  ["/experiments/new", "New experiment", () => import("./pages/new_experiment.js")],
  ["/experiments/:id/:tab?", "Experiment", () => import("./pages/experiment/page.js")],
  ["/trials/:id/:tab?", "Trial", () => import("./pages/trial.js")],
  ["/queue/:pool?", "Job queue", () => import("./pages/queue.js")],
  ["/cluster", "Machines", () => import("./pages/cluster.js")],
  ["/work", "All work", () => import("./pages/work.js")],
  ["/tasks", "Tasks", () => import("./pages/tasks.js")],
  ["/tasks/:id/terminal", "Terminal", () => import("./pages/terminal.js")],
  ["/tasks/:kind/:id/:tab?", "Task", () => import("./pages/task.js")],
  ["/models", "Model registry", () => import("./pages/models.js")],
  ["/models/:id", "Model", () => import("./pages/model.js")],
  ["/workspaces", "Workspaces", () => import("./pages/workspaces.js")],
  ["/templates", "Templates", () => import("./pages/templates.js")],
  ["/templates/:name", "Template", () => import("./pages/template.js")],
  ["/budgets", "Budgets", () => import("./pages/budgets.js")],
  ["/webhooks", "Webhooks", () => import("./pages/webhooks.js")],
  ["/webhooks/:id", "Webhook", () => import("./pages/webhook.js")],
  ["/admin", "Administration", () => import("./pages/admin/page.js")],
  ["/admin/people", "People", () => import("./pages/admin/people.js")],
  ["/admin/people/:id", "Person", () => import("./pages/admin/person.js")],
  ["/admin/groups", "Groups", () => import("./pages/admin/groups.js")],
  ["/admin/groups/:id", "Group", () => import("./pages/admin/group.js")],
  ["/admin/roles", "Roles", () => import("./pages/admin/roles.js")],
  ["/admin/policies", "Config policies", () => import("./pages/admin/policies.js")],
  ["/admin/tokens", "Access tokens", () => import("./pages/admin/tokens.js")],
  ["/admin/audit", "Audit log", () => import("./pages/admin/audit.js")],
  ["/admin/message", "Message", () => import("./pages/admin/message.js")],
  // These paths are those of Determined's pages.
  ["/admin/user-management", "People", () => import("./pages/admin/people.js")],
  ["/admin/group-management", "Groups", () => import("./pages/admin/groups.js")],
  ["/settings", "Settings", () => import("./pages/settings.js")],
  ["/sign-out", "Sign out", () => import("./pages/sign_out.js")],
  ["/design", "Design", () => import("./pages/design.js")],
];
const SIGN_IN = () => import("./pages/sign_in.js");
const MISSING = () => import("./pages/missing.js");

/** @returns {{ load: () => Promise<any>, params: Record<string, string>, title: string, key: string }} */
function found() {
  const { path } = place.value;
  for (const [pattern, title, load] of PAGES) {
    const params = matched(pattern, path);
    if (params) return { load, params, title, key: `${load} ${params.id ?? params.name ?? ""}` };
  }
  return { load: MISSING, params: {}, title: "Determined", key: "" };
}

/** @param {{ load: () => Promise<any>, params: Record<string, string> }} props */
function Loading({ load, params }) {
  const [page, setPage] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  useEffect(() => {
    let here = true;
    imported(load).then(
      (module) => here && setPage(() => module.Page),
      () => here && setError(new Error("This page did not load. The cluster may have been upgraded. Reload the page.")),
    );
    return () => {
      here = false;
    };
  }, []);
  if (error) return html`<${Failure} error=${error} retry=${() => location.reload()} />`;
  return page ? html`<${page} ...${params} />` : html`<${Bones} />`;
}

/** Shows a page, or that it cannot be shown: the menu and every other page stay usable. */
class Boundary extends Broken {
  render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    const bare = link(place.value.path);
    return html`
      <${Head} title="This page cannot be shown">
        ${location.search && html`<${Button} href=${bare} onClick=${() => this.setState({ error: null })}>Reset filters<//>`}
        <${Button} kind="primary" onClick=${() => this.setState({ error: null })}>Try again<//>
      <//>
      <div class="notice red" role="alert"><p>An unexpected error occurred: ${error.message}. Filters or other settings in the URL may be the cause.</p></div>
    `;
  }
}

function App() {
  const [error, setError] = useState(/** @type {Error | undefined} */ (undefined));
  const start = () => {
    setError(undefined);
    begin().catch(setError);
  };
  useEffect(start, []);
  const page = found();
  useArrival(user.value ? page.key : user.value === null ? "sign-in" : "");
  if (error && user.value === undefined) {
    return html`<main class="main"><${Failure} error=${error} retry=${start} /></main>`;
  }
  if (user.value === undefined) return html`<main class="main"><${Bones} /></main>`;
  if (user.value === null || place.value.path === "/sign-in") return html`<${Loading} key="sign-in" load=${SIGN_IN} params=${{}} />`;
  return html`${lapsed.value && html`<${SignInOver} />`}<${Frame}><${Boundary} key=${`${visit.value} ${page.key}`}><${Loading} ...${page} /><//><//><div class="hidden-visually" role="status" aria-live="polite" aria-label="Page">${told.value}</div>`;
}

/** Asks to sign in again, over the page and its dialogs. Nothing closes it except signing in. */
function SignInOver() {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const show = () => box.current?.isConnected && box.current.showModal();
  useEffect(() => void show(), []);
  return html`<dialog ref=${box} aria-label="Your session expired" onClose=${show}><${Loading} load=${SIGN_IN} params=${{ again: true }} /></dialog>`;
}

/** Expect another heading where somebody went to another page; the first one comes with the window. @param {string} key */
function useArrival(key) {
  const was = useRef("");
  useLayoutEffect(() => {
    if (was.current && was.current !== key) expect();
    was.current = key;
  }, [key]);
}

sessionStorage.removeItem("loads");
listen();
titled(() => {
  const name = found().title;
  return [heading.value === name ? "" : heading.value, name, cluster.value?.clusterName ?? ""];
});
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
keepFocus(root);
render(html`<${App} />`, root);
