// Copies the WebUI's libraries from packages into the repository: `node scripts/webui/vendor.mjs NODE_MODULES`.
// Browsers resolve bare names only with an import map, which our pages' policy forbids. Names are replaced by addresses.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const modules = process.argv[2];
const target = new URL("../../controlplane/det_controlplane/webui/vendor/", import.meta.url).pathname;

/** @type {[string, string, string][]} package, file in it, our name of it */
const FILES = [
  ["preact", "dist/preact.module.js", "preact.js"],
  ["preact", "hooks/dist/hooks.module.js", "hooks.js"],
  ["@preact/signals-core", "dist/signals-core.module.js", "signals-core.js"],
  ["@preact/signals", "dist/signals.module.js", "signals.js"],
  ["htm", "dist/htm.module.js", "htm.js"],
  ["uplot", "dist/uPlot.iife.min.js", "uplot.js"],
  ["uplot", "dist/uPlot.min.css", "uplot.css"],
  ["@xterm/xterm", "lib/xterm.mjs", "xterm.js"],
  ["@xterm/addon-fit", "lib/addon-fit.mjs", "xterm-fit.js"],
  ["@xterm/xterm", "css/xterm.css", "xterm.css"],
];
const NAMES = {
  "preact/hooks": "./hooks.js",
  "@preact/signals-core": "./signals-core.js",
  preact: "./preact.js",
};

// Our pages' policy forbids inline styles, so the terminal's styles go into style sheets of the document.
const SHEET = `
function sheetElement() {
  const sheet = new CSSStyleSheet();
  const element = document.createElement("span");
  const remove = element.remove.bind(element);
  element.hidden = true;
  Object.defineProperty(element, "textContent", { set: (text) => sheet.replaceSync(text) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    remove();
  };
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  return element;
}`;

/** @param {string} text of xterm.js */
function withoutInlineStyles(text) {
  const changed = text
    .replace(/[\w.]+\.createElement\("style"\)/g, "sheetElement()")
    .replace(/(\w+)\.setAttribute\("style",`\$\{\1\.getAttribute\("style"\)\|\|""\}\$\{(\w+)\};`\)/, "$1.style.cssText+=`${$2};`");
  if (changed.split("sheetElement()").length !== 4 || /setAttribute\("style"|innerHTML/.test(changed)) throw new Error("xterm.js writes styles in another way: look at it again");
  return `${changed.trimEnd()}${SHEET}`;
}

for (const [name, file, ours] of FILES) {
  const { version, license } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf-8"));
  let text = readFileSync(join(modules, name, file), "utf-8").replace(/\n?\/\/# sourceMappingURL=.*\s*$/, "");
  for (const [bare, address] of Object.entries(NAMES)) text = text.replaceAll(`from"${bare}"`, `from"${address}"`);
  if (ours === "xterm.js") text = withoutInlineStyles(text);
  if (ours === "uplot.js") text = `${text.trimEnd()}\nexport default uPlot;`;
  // LICENSES.txt has the notices.
  if (ours.endsWith(".css")) text = text.replace(/\/\*[\s\S]*?\*\/\s*/g, "");
  const banner = `/*! ${name} ${version}, ${license}: see LICENSES.txt */\n`;
  writeFileSync(join(target, ours), `${banner}${text.trimEnd()}\n`);
}
const notices = [...new Set(FILES.map(([name]) => name))].map((name) => {
  const { version } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf-8"));
  return `${name} ${version}\n\n${readFileSync(join(modules, name, "LICENSE"), "utf-8").trim()}\n`;
});
writeFileSync(join(target, "LICENSES.txt"), notices.join(`\n${"-".repeat(80)}\n\n`));
