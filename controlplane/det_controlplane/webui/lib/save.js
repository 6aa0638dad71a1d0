// Files that a page makes for its user.

/** Save bytes as a file. @param {Blob} content @param {string} name */
export function save(content, name) {
  const at = URL.createObjectURL(content);
  const anchor = document.createElement("a");
  anchor.href = at;
  anchor.download = name;
  anchor.click();
  URL.revokeObjectURL(at);
}
