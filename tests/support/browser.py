"""A real browser for tests of the WebUI: Chromium, driven by Playwright from an environment of its own."""

import functools
import inspect
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.support import skips
from tests.support.kept_pages import HEIGHT, KeptPages

ROOT = Path(__file__).resolve().parents[2]
# How scripts/webui/browser ends where no browser can be had.
_NO_BROWSER = 3
# Loaded machines are slow. An element that never appears still fails.
PATIENCE_MS = 90_000
# Widths of windows.
PHONE, DESK, WALL = 360, 1280, 2560
_PAGES: dict[Any, KeptPages] = {}
_CALLERS = 16  # stack frames: of Playwright, of this file and of a test
_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server", "--disable-background-networking",
]  # fmt: skip


_SCROLL = """([selector, pixels, steps]) => new Promise((resolve) => {
    const box = document.querySelector(selector);
    const step = (left) => {
      if (!left) return resolve();
      box.scrollTop += pixels;
      requestAnimationFrame(() => step(left - 1));
    };
    requestAnimationFrame(() => step(steps));
})"""


# Charts take their new width in the frame after the one in which their place changed.
_DRAW = """() => new Promise((drawn) => {
    const frame = (left) => (left ? requestAnimationFrame(() => frame(left - 1)) : drawn());
    frame(3);
})"""
_BEYOND = """() => {
    const tables = innerWidth > 640 ? [] : document.querySelectorAll(".table-scroll:has(> .cards)");
    return Math.max(...[document.documentElement, ...tables].map((e) => e.scrollWidth - e.clientWidth));
}"""
# The page of before is gone when the second frame begins.
_FOLLOW = """address => new Promise((resolve) => {
    const link = Object.assign(document.createElement("a"), {href: address});
    document.body.append(link);
    link.click();
    link.remove();
    requestAnimationFrame(() => requestAnimationFrame(resolve));
})"""
_EVERY_RULE = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']"
# Rules that depend on the theme of a page.
OF_COLOURS = "{type: 'rule', values: ['color-contrast', 'link-in-text-block']}"
# The page selects the findings, because sending all passed checks would take longer than the checks.
_FAULTS = """axe.run(document, {runOnly: RULES, resultTypes: ["violations"]}).then((found) =>
    found.violations.map((v) => `${v.id}: ${v.help} (${v.nodes[0].html.slice(0, 160)})`))"""
_HIDE = """hidden => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@functools.cache
def executable() -> str:
    """Return the path of the browser; from then on Playwright can be imported."""
    result = subprocess.run(
        [str(ROOT / "scripts" / "webui" / "browser")], stdout=subprocess.PIPE, text=True
    )
    if result.returncode == _NO_BROWSER:
        skips.skip("there is no Chromium", "apt-get install chromium-headless-shell")
    result.check_returncode()
    packages, path = result.stdout.split("\n")[:2]
    if packages not in sys.path:
        sys.path.append(packages)
    return path


@functools.cache
def axe() -> str:
    """Return the script that checks accessibility."""
    result = subprocess.run(
        [str(ROOT / "scripts" / "webui" / "check"), "install"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    script = Path(result.stdout.strip()) / "node_modules" / "axe-core" / "axe.min.js"
    return script.read_text("utf-8")


def callers(context: int = 1) -> list[inspect.FrameInfo]:
    """Return the nearest frames as inspect.stack does, without their lines.

    Playwright asks for them at each call. inspect.stack looks through every loaded module for each frame that has no
    file, of which pytest has some: that took half of the time of these tests' own process.
    """
    frames: list[inspect.FrameInfo] = []
    frame = inspect.currentframe()
    while frame is not None and len(frames) < _CALLERS:
        code = frame.f_code
        frames.append(
            inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None)
        )
        frame = frame.f_back
    return frames


@contextmanager
def chromium() -> Iterator[Any]:
    path = executable()
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with patch.object(inspect, "stack", callers), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        _PAGES[browser] = KeptPages(browser, PATIENCE_MS)
        try:
            yield browser
        finally:
            del _PAGES[browser]
            browser.close()


@dataclass
class Tab:
    """One page in the browser, and the messages of its console."""

    page: Any
    base: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        self.page.goto(f"{self.base}/det{path}")

    def visit(self, path: str) -> None:
        """Open a page by a link, which loads no script again; for tests that visit many pages."""
        self.page.evaluate(_FOLLOW, f"/det{path}")

    def ready(self) -> None:
        """Wait until the page has its heading and has loaded all parts."""
        self.page.locator("h1").first.wait_for()
        from playwright.sync_api import expect

        expect(self.page.locator(".bones:not(.example .bones)")).to_have_count(0)

    def look(self, width: int, theme: str = "light") -> None:
        """Look at the page that is shown through a window of another width, or in another theme."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.emulate_media(color_scheme=theme)
        self.page.evaluate(_DRAW)

    def hide(self, hidden: bool) -> None:
        """Let the page take its tab for hidden, or for seen again."""
        self.page.evaluate(_HIDE, hidden)

    def sign_in(self, username: str = "determined", password: str = "") -> None:
        self.page.get_by_label("User name").fill(username)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in", exact=True).click()

    def beyond(self) -> int:
        """Return by how many pixels the page is wider than its window, or on a phone a table than its place."""
        return int(self.page.evaluate(_BEYOND))

    def layouts_of_scrolling(self, selector: str, pixels: int, steps: int) -> int:
        """Scroll a box step by step, each in a frame of its own; return how often that had the page laid out."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("Performance.enable")

        def layouts() -> int:
            metrics = session.send("Performance.getMetrics")["metrics"]
            return int(next(m["value"] for m in metrics if m["name"] == "LayoutCount"))

        before = layouts()
        self.page.evaluate(_SCROLL, [selector, pixels, steps])
        return layouts() - before

    def faults(self, rules: str = _EVERY_RULE) -> list[str]:
        """Return axe's findings about the page in its present state."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(axe())
        matching_faults: list[str] = self.page.evaluate(_FAULTS.replace("RULES", rules))
        return matching_faults


def _told(message: Any, base: str) -> str:
    """Return the text of a console message, and its address."""
    return f"{message.text} {message.location['url'].removeprefix(base)}".rstrip()


def _is_complaint(message: Any) -> bool:
    """Ignore effects of network interfaces of other tests' containers: pages retry requests."""
    is_error = message.type in ("error", "warning")
    return is_error and "ERR_NETWORK_CHANGED" not in message.text


@contextmanager
def opened(
    browser: Any,
    base: str,
    *,
    signed_in: bool = True,
    width: int = DESK,
    theme: str = "light",
    user: tuple[str, str] = ("determined", ""),
) -> Iterator[Tab]:
    """Open a tab without cookies of others, of a user with a password; the form is left to tests of signing in."""
    pages = _PAGES[browser]
    kept = pages.take(base)
    tab = Tab(kept.page, base)
    tab.page.on(
        "console",
        lambda m: tab.complaints.append(_told(m, base)) if _is_complaint(m) else None,
    )
    tab.page.on("pageerror", lambda e: tab.complaints.append(str(e)))
    try:
        kept.begin(signed_in=signed_in, width=width, theme=theme)
        if signed_in:
            login = dict(zip(("username", "password"), user, strict=True))
            assert tab.page.context.request.post(f"{base}/api/v1/auth/login", data=login).ok
        yield tab
    except BaseException:
        kept.page.context.close()
        raise
    pages.give_back(kept)
