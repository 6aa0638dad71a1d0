// The files of a folder that are left out: .detignore has the rules of .gitignore.

// The command line leaves out the same files.
const ALWAYS = ["__pycache__/", "*.py[co]", "*$py.class", ".terraform/", "*.tfstate", "*.tfstate.*", ".git/", ".vscode/", ".idea/", ".mypy_cache/", "/shared_fs"];

/** @typedef {{ path: RegExp, folder: boolean, keep: boolean }} Rule */

/** @param {string} pattern without what makes a rule of it */
function expression(pattern) {
  let text = "";
  for (let i = 0; i < pattern.length; i++) {
    const rest = pattern.slice(i);
    const set = /^\[([!^]?)((?:\]|[^\]])[^\]]*)\]/.exec(rest);
    if (rest.startsWith("**/")) [text, i] = [`${text}(?:.*/)?`, i + 2];
    else if (rest.startsWith("**")) [text, i] = [`${text}.*`, i + 1];
    else if (rest[0] === "*") text += "[^/]*";
    else if (rest[0] === "?") text += "[^/]";
    else if (set) [text, i] = [`${text}[${set[1] ? "^" : ""}${set[2].replace(/[\\\]]/g, "\\$&")}]`, i + set[0].length - 1];
    else {
      if (rest[0] === "\\" && rest.length > 1) i++;
      text += pattern[i].replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    }
  }
  return text;
}

/** @param {string} line @returns {Rule[]} */
function ruleOf(line) {
  let pattern = line.replace(/(?<!\\)\s+$/, "");
  if (!pattern || pattern.startsWith("#")) return [];
  const keep = pattern.startsWith("!");
  if (keep) pattern = pattern.slice(1);
  const folder = pattern.endsWith("/");
  if (folder) pattern = pattern.slice(0, -1);
  const anchored = pattern.includes("/");
  const path = new RegExp(`^${anchored ? "" : "(?:.*/)?"}${expression(pattern.replace(/^\//, ""))}$`);
  return [{ path, folder, keep }];
}

/** Give a test for paths of files, relative to the folder. @param {string} detignore @returns {(path: string) => boolean} whether it is left out */
export function ignoring(detignore) {
  const rules = [...detignore.split(/\r?\n/), ...ALWAYS].flatMap(ruleOf);
  /** @param {string} path @param {boolean} folder */
  const out = (path, folder) => {
    const last = rules.findLast((rule) => (folder || !rule.folder) && rule.path.test(path));
    return !!last && !last.keep;
  };
  return (path) => {
    if (path === ".detignore") return true;
    const parts = path.split("/");
    return parts.some((_, i) => out(parts.slice(0, i + 1).join("/"), i < parts.length - 1));
  };
}
