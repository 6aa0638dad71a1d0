// The connection between a terminal and the shell of a task. Frames have a letter, a length and bytes
// (determined.exec._terminal). If the connection breaks, it is opened again; the shell keeps running.
import { get } from "./api.js";

/**
 * @typedef {{ what: "connecting" | "open" } | { what: "lost" | "refused", why: string } | { what: "taken" } | { what: "ended", code: number }} State
 * @typedef {{ task: string, session: string, size: () => [number, number], onBegin: () => void, onOutput: (part: Uint8Array, shown: () => void) => void, onState: (state: State) => void }} Ends
 */

const HEAD = 5;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const SHOWN_MS = 50;
const encoder = new TextEncoder();

export class Wire {
  /** @param {Ends} ends */
  constructor(ends) {
    this.ends = ends;
    this.left = new Uint8Array();
    this.pause = FIRST_PAUSE_MS;
    this.timer = 0;
    this.isClosed = false;
    this.isFresh = true;
    this.shown = 0;
    this.telling = 0;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.offline = () => this.socket && this.#lose(this.socket, "This computer is offline.");
    this.online = () => this.timer && this.open();
    addEventListener("offline", this.offline);
    addEventListener("online", this.online);
    this.open();
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.timer);
    clearTimeout(this.telling);
    removeEventListener("offline", this.offline);
    removeEventListener("online", this.online);
    this.socket?.close();
    this.socket = null;
  }

  async open() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.ends.onState({ what: "connecting" });
    /** @type {{ address: string, token: string }} */
    let place;
    try {
      place = await get(`/api/v1/shells/${encodeURIComponent(this.ends.task)}/terminal`);
    } catch (e) {
      if (this.isClosed) return;
      const problem = /** @type {import("./api.js").ApiError} */ (e);
      if (problem.passing) this.#again("The cluster is not responding.");
      else this.ends.onState({ what: "refused", why: problem.message });
      return;
    }
    if (this.isClosed) return;
    const socket = new WebSocket(location.origin.replace(/^http/, "ws") + place.address);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.left = new Uint8Array();
    this.isFresh = true;
    this.shown = 0;
    socket.onopen = () => this.#send("h", JSON.stringify({ token: place.token, session: this.ends.session, size: this.ends.size() }));
    socket.onmessage = (event) => socket === this.socket && this.#take(new Uint8Array(event.data));
    socket.onclose = () => this.#lose(socket, "The connection was lost.");
  }

  /** @param {string} text */
  type(text) {
    this.#send("i", text);
  }

  /** @param {Uint8Array} bytes */
  typeBytes(bytes) {
    this.#send("i", bytes);
  }

  resized() {
    this.#send("s", JSON.stringify(this.ends.size()));
  }

  /** @param {WebSocket} socket @param {string} why */
  #lose(socket, why) {
    if (socket !== this.socket) return;
    this.socket = null;
    socket.close();
    this.#again(why);
  }

  /** @param {string} why */
  #again(why) {
    this.ends.onState({ what: "lost", why });
    this.timer = setTimeout(() => this.open(), this.pause);
    this.pause = Math.min(2 * this.pause, LONGEST_PAUSE_MS);
  }

  /** @param {State} state after which nothing is tried again by itself */
  #stop(state) {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.pause = FIRST_PAUSE_MS;
    this.ends.onState(state);
  }

  /** @param {string} kind @param {string | Uint8Array} content */
  #send(kind, content) {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const body = typeof content === "string" ? encoder.encode(content) : content;
    const frame = new Uint8Array(HEAD + body.length);
    frame[0] = kind.charCodeAt(0);
    new DataView(frame.buffer).setUint32(1, body.length);
    frame.set(body, HEAD);
    this.socket.send(frame);
  }

  /** @param {Uint8Array} part frames do not end where messages do */
  #take(part) {
    let rest = part;
    if (this.left.length) {
      rest = new Uint8Array(this.left.length + part.length);
      rest.set(this.left);
      rest.set(part, this.left.length);
    }
    while (rest.length >= HEAD) {
      const end = HEAD + new DataView(rest.buffer, rest.byteOffset).getUint32(1);
      if (rest.length < end) break;
      this.#frame(String.fromCharCode(rest[0]), rest.subarray(HEAD, end));
      rest = rest.subarray(end);
    }
    this.left = rest.slice();
  }

  /** @param {string} kind @param {Uint8Array} body */
  #frame(kind, body) {
    const text = () => new TextDecoder().decode(body);
    if (kind === "o") {
      if (this.isFresh) {
        this.isFresh = false;
        this.pause = FIRST_PAUSE_MS;
        this.ends.onBegin();
        this.ends.onState({ what: "open" });
      }
      const { socket } = this;
      this.ends.onOutput(body.slice(), () => socket === this.socket && this.#show(body.length));
    } else if (kind === "x") this.#stop({ what: "ended", code: Number(text()) });
    else if (kind === "t") this.#stop({ what: "taken" });
    else if (kind === "r") this.#stop({ what: "refused", why: `The shell rejected the connection: ${text()}.` });
  }

  /** Tell the shell how much is on the screen: it sends no more than that and a little. @param {number} count */
  #show(count) {
    this.shown += count;
    this.telling ||= setTimeout(() => {
      this.telling = 0;
      if (this.shown) this.#send("a", String(this.shown));
      this.shown = 0;
    }, SHOWN_MS);
  }
}
