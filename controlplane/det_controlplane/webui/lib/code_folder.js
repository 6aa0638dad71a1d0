// Files that somebody chose, as the code of an experiment.
import { ignoring } from "./ignore.js";

// The limit of a cluster, and the limit of a request on hosts of functions.
export const MOST_BYTES = 95 * 2 ** 20;
const RUNNABLE = "IyE"; // how `#!` begins in base64

/** @typedef {{ path: string, size: number, file: File }} Chosen */
/** @typedef {{ name: string, files: Chosen[], left: number, bytes: number, problem: string }} Folder */

/** Take what a picker gave: paths below the folder, without what .detignore names. @param {FileList | File[]} picked @returns {Promise<Folder>} */
export async function folderOf(picked) {
  const all = [...picked].map((file) => {
    const below = file.webkitRelativePath.split("/");
    return { path: below.slice(1).join("/") || file.name, size: file.size, file, top: below.length > 1 ? below[0] : "" };
  });
  const rules = all.find((f) => f.path === ".detignore");
  const ignored = ignoring(rules ? await rules.file.text() : "");
  const files = all.filter((f) => !ignored(f.path)).sort((a, b) => a.path.localeCompare(b.path));
  const bytes = files.reduce((sum, f) => sum + f.size, 0);
  return { name: all[0]?.top ?? "", files, left: all.length - files.length, bytes, problem: tooMuch(files, bytes) };
}

/** @param {Chosen[]} files @param {number} bytes */
function tooMuch(files, bytes) {
  if (bytes <= MOST_BYTES) return "";
  const largest = [...files].sort((a, b) => b.size - a.size).slice(0, 3);
  const named = largest.map((f) => `${f.path} (${mebibytes(f.size)})`).join(", ");
  return `These files have ${mebibytes(bytes)}, but the limit is ${mebibytes(MOST_BYTES)}. The largest are ${named}. Add them to .detignore, and read data from storage.`;
}

const mebibytes = (/** @type {number} */ bytes) => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 20 ? 2 : 0)} MiB`;

/** Read files as the API takes them. @param {Chosen[]} files */
export const modelDefinition = (files) =>
  Promise.all(
    files.map(async ({ path, file }) => {
      const content = await base64(file);
      return { path, type: 48, content, mtime: String(Math.floor(file.lastModified / 1000)), mode: content.startsWith(RUNNABLE) ? 0o755 : 0o644, uid: 0, gid: 0 };
    }),
  );

/** @param {File} file @returns {Promise<string>} */
const base64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => reject(new Error(`${file.name} cannot be read. Select the files again.`));
    reader.readAsDataURL(file);
  });
