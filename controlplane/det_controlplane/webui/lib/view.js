// The view library in one import.
import { Component, h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { h, render };
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export { batch, computed, effect, signal } from "../vendor/signals.js";

/** A component that keeps what was thrown while its children were drawn. */
export class Broken extends Component {
  constructor(/** @type {any} */ props) {
    super(props);
    /** @type {{ error: Error | null }} */
    this.state = { error: null };
  }

  /** @param {unknown} error */
  static getDerivedStateFromError(error) {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  /** @returns {any} */
  render() {
    return null;
  }
}

/** Elements from a template: text that is put in stays text. */
export const html = htm.bind(h);
