// Times that are updated while the page is open: ages and durations.
import { ago, moment, span } from "../lib/format.js";
import { computed, html, signal, useMemo } from "../lib/view.js";

const BEAT_MS = 1_000;
const beat = signal(0);
setInterval(() => document.hidden || beat.value++, BEAT_MS);

/** Only the text is written again, and only when it is another. @param {() => string} text @param {unknown[]} keys */
const useBeating = (text, keys) => useMemo(() => computed(() => (beat.value, text())), keys);

/** @param {{ at: string | null | undefined, never?: string }} props */
export const Ago = ({ at, never = "–" }) => {
  const text = useBeating(() => (at ? ago(at) : never), [at, never]);
  return html`<span title=${at ? moment(at) : undefined}>${text}</span>`;
};

/** @param {{ from: string | null | undefined, to?: string | null }} props without `to` until now */
export const Span = ({ from, to = null }) => html`${useBeating(() => span(from, to), [from, to])}`;
