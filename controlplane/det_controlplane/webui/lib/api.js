// Calls of the public API. The cookie of the session goes along by itself; scripts never see it.

/** A refusal of the API, in its words. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }

  /** Tell whether the same call may succeed later. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 502;
  }
}

/** @type {() => void} */
let onSignedOut = () => {};

/** @param {() => void} act is called when the API no longer knows us */
export function whenSignedOut(act) {
  onSignedOut = act;
}

/**
 * @typedef {Record<string, string | number | boolean | null | undefined | (string | number)[]>} Query
 * @typedef {{ signal?: AbortSignal, quiet?: boolean }} Options
 */

/** @param {string} path @param {Query} [query] */
export function address(path, query = {}) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) value.forEach((v) => asked.append(name, String(v)));
    else if (value !== undefined && value !== null && value !== "") asked.append(name, String(value));
  }
  const text = asked.toString();
  return text ? `${path}?${text}` : path;
}

/** @param {string} method @param {string} url @param {unknown} body @param {Options} options */
async function respond(method, url, body, options) {
  /** @type {RequestInit} */
  const init = { method, signal: options.signal, credentials: "same-origin", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, "Content-Type": "application/json" };
  }
  let response;
  try {
    response = await fetch(url, init);
  } catch (e) {
    if (options.signal?.aborted) throw e;
    throw new ApiError(0, `The cluster is not responding. ${method === "GET" ? "Retrying automatically." : "Try again in a moment."}`);
  }
  if (response.ok) return response;
  if (response.status === 401 && !options.quiet) {
    onSignedOut();
    throw new ApiError(401, "Your session expired. Sign in, then try again.");
  }
  throw new ApiError(response.status, await reason(response));
}

/** @param {Response} response */
async function reason(response) {
  try {
    const told = await response.json();
    const text = told?.error?.error ?? told?.message;
    if (text) return inWords(String(text));
  } catch {
    // Not the API but something before it answered.
  }
  return `The cluster returned ${response.status} ${response.statusText}.`;
}

/** Return a refusal as a sentence for people: the words of the API are for programs. @param {string} text */
function inWords(text) {
  const words = text
    .replace(": send it as currentPassword", "")
    .replace(/[:;,] (?:see|use|run) (['`])det [^'`]*\1$/, "")
    .replace(/\b(?:JOB_STATE|STATE|LOG_LEVEL|TASK_TYPE|TYPE)_([A-Z][A-Z_]*)\b/g, (_, word) => word.replaceAll("_", " ").toLowerCase());
  return /^[a-z]+[ ,]/.test(words) ? words.charAt(0).toUpperCase() + words.slice(1) : words;
}

/** @param {string} path @param {Query} [query] @param {Options} [options] @returns {Promise<any>} */
export async function get(path, query, options = {}) {
  return (await respond("GET", address(path, query), undefined, options)).json();
}

/** @param {string} method @param {string} path @param {unknown} [body] @param {Options} [options] @returns {Promise<any>} */
export async function send(method, path, body = {}, options = {}) {
  return (await respond(method, path, body, options)).json();
}

/** @param {string} path @param {unknown} [body] @param {Options} [options] */
export const post = (path, body, options) => send("POST", path, body, options);

/** Read a stream of one object a line. @param {string} path @param {Query} query @param {Options} [options] */
export async function* lines(path, query, options = {}) {
  const response = await respond("GET", address(path, query), undefined, options);
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) if (part) yield message(part);
    }
    if (rest) yield message(rest);
  } finally {
    // A caller that stops reading early closes the connection.
    reader.cancel().catch(() => {});
  }
}

/** @param {string} text @returns {any} */
function message(text) {
  const told = JSON.parse(text);
  if (told.error) throw new ApiError(told.error.httpCode ?? 500, told.error.message ?? "The connection was lost.");
  return told.result;
}

/** Read the first message of a stream. @param {string} path @param {Query} query @param {Options} [options] */
export async function first(path, query, options) {
  for await (const told of lines(path, query, options)) return told;
  return null;
}
