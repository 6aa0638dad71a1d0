// Dark, light, or as the system has it.
import { signal } from "./view.js";

/** @type {("system" | "light" | "dark")[]} */
export const THEMES = ["system", "light", "dark"];
export const theme = signal(localStorage.getItem("theme") ?? "system");

/** @param {string} chosen */
export function choose(chosen) {
  theme.value = chosen;
  if (chosen === "system") {
    localStorage.removeItem("theme");
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem("theme", chosen);
    document.documentElement.dataset.theme = chosen;
  }
}

/** Call when colours may have changed. @param {() => void} act @returns {() => void} that ends it */
export function onThemeChange(act) {
  const preference = matchMedia("(prefers-color-scheme: dark)");
  preference.addEventListener("change", act);
  const end = theme.subscribe(() => queueMicrotask(act));
  return () => {
    preference.removeEventListener("change", act);
    end();
  };
}
