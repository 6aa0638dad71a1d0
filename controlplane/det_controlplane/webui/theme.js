// This script runs before the first paint, so that a dark page does not flash white.
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();

// A script that did not arrive leaves the page empty: it is loaded again, a few times at most.
addEventListener(
  "error",
  (event) => {
    if (!(event.target instanceof HTMLScriptElement)) return;
    const tries = Number(sessionStorage.getItem("loads") ?? 0) + 1;
    sessionStorage.setItem("loads", String(tries));
    if (tries < 4) setTimeout(() => location.reload(), 500 * tries);
  },
  true,
);
