// Files that a page gives its user.

/** Let the browser fetch a file; where that is refused, the page stays. @param {string} address @param {string} [name] else as the cluster calls it */
export function download(address, name = "") {
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
}

/** Save bytes as a file. @param {Blob} content @param {string} name */
export function save(content, name) {
  const at = URL.createObjectURL(content);
  download(at, name);
  URL.revokeObjectURL(at);
}
