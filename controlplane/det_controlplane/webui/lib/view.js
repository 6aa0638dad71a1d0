// The view library in one import.
import { h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { h, render };
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export { batch, computed, effect, signal } from "../vendor/signals.js";

/** Elements from a template: text that is put in stays text. */
export const html = htm.bind(h);
