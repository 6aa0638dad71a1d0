// The names of pages, for the window title and for screen readers.
import { effect, signal, useEffect, useLayoutEffect } from "./view.js";

/** The heading of the page in sight, once it is there. */
export const heading = signal("");
/** What a screen reader is told after a way to another page. */
export const told = signal("");

let arriving = false;

/** Expect the heading of another page. */
export function expect() {
  arriving = true;
  told.value = "";
}

/** Let the page be called by its heading, which gets the focus after a way to it. @param {string} title @param {{ current: HTMLElement | null }} box */
export function useHeading(title, box) {
  useEffect(() => {
    heading.value = title;
    return () => {
      heading.value = "";
    };
  }, [title]);
  useLayoutEffect(() => {
    if (!arriving) return;
    arriving = false;
    told.value = title;
    const at = document.activeElement;
    // Not away from a field that somebody is in already.
    if (!at?.closest("dialog, input, textarea, select")) box.current?.focus({ preventScroll: true });
  }, []);
}

/** Keep the title of the window as the page is called. @param {() => string[]} parts */
export const titled = (parts) => effect(() => {
  document.title = parts().filter(Boolean).join(" · ");
});
