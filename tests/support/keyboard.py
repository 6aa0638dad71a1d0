"""A page of the WebUI used by keys alone, as people do who see the focus and have no pointer."""

import time
from typing import Any

from tests.support.browser import PATIENCE_MS, Tab

MOST_STOPS = 150
# Whether the focus is visible: the element is in the window, not covered, and has a ring.
# Keys do not reach headings, which scripts focus for screen readers.
_STOP = """() => {
    const at = document.activeElement;
    if (!at || at === document.body) return null;
    const words = (e) => (e?.textContent ?? "").replace(/\\s+/g, " ").trim();
    const label = at.labels?.[0];
    const given = at.ariaLabel || words(label?.querySelector("span"));
    const name = given || words(label) || words(at) || at.placeholder || at.title;
    const box = at.getBoundingClientRect();
    const [x, y] = [box.left + Math.min(box.width, innerWidth) / 2, box.top + Math.min(box.height / 2, 12)];
    const above = document.elementFromPoint(x, y);
    const near = (e) => e && (at.contains(e) || e.contains(at) || e.closest("label")?.contains(at));
    const rings = [at, ...at.querySelectorAll("*")].map((e) => getComputedStyle(e));
    const ringed = rings.some((s) =>
        (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0) || s.boxShadow !== "none");
    return { name, seen: (ringed || at.matches("h1")) && box.width > 0 && near(above) };
}"""


class Keyboard:
    """Press keys on a page, and record each invisible focus."""

    def __init__(self, tab: Tab) -> None:
        self.tab, self.page = tab, tab.page
        self.unseen: set[str] = set()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.insert_text(text)

    def at(self) -> str:
        """Return the name of the focused element, or "" if no element has the focus."""
        stop: dict[str, Any] | None = self.page.evaluate(_STOP)
        if stop is None:
            return ""
        if not stop["seen"]:
            self.unseen.add(stop["name"])
        return str(stop["name"])

    def to(self, name: str, key: str = "Tab") -> None:
        """Press Tab until something of a name, or of a beginning of it, has the focus."""
        names = []
        for _ in range(MOST_STOPS):
            self.press(key)
            names.append(self.at())
            if names[-1] == name or names[-1].startswith(name + " "):
                return
        raise AssertionError(f"{name!r} is not reached on {self.page.url}, only {names}")

    def enter(self, *names: str) -> None:
        """Go to a button or link and press it, then to the next one."""
        for name in names:
            self.to(name)
            self.press("Enter")

    def fill(self, fields: dict[str, str]) -> None:
        """Go through fields in their order, and type into each."""
        for name, text in fields.items():
            if self.at() != name:
                self.to(name)
            self.press("Control+a")
            self.type(text)

    def choose(self, menu: str, item: str) -> None:
        """Open a menu and go down to one of its items."""
        self.to(menu)
        self.pick(item)

    def pick(self, item: str) -> None:
        """Open the menu that has the focus, and go down to one of its items."""
        self.press("Enter")
        self.page.locator('[role^="menuitem"]:focus').wait_for()
        names = []
        for _ in range(40):
            names.append(self.at())
            if names[-1] == item:
                return self.press("Enter")
            self.press("ArrowDown")
        raise AssertionError(f"{item!r} is not in the menu: {names}")

    def dialog(self, name: str) -> None:
        """Wait for a dialog, which has the focus."""
        self.page.get_by_role("dialog", name=name).wait_for()
        self.until("the dialog has the focus", "document.activeElement.closest('dialog')")

    def gone(self) -> None:
        """Wait until a dialog is closed, and something of the page has the focus."""
        self.page.get_by_role("dialog").wait_for(state="detached")
        self.kept()

    def kept(self) -> None:
        """Wait until something has the focus that may have been taken from it."""
        self.until("the focus is kept", "document.activeElement !== document.body")

    def heading(self, name: str) -> None:
        """Wait for a page with a focused heading."""
        self.page.get_by_role("heading", name=name, level=1).wait_for()
        self.until(f"the heading {name} has the focus", "document.activeElement.matches('h1')")

    def until(self, description: str, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self.page.evaluate(f"!!({condition})"):
            if time.monotonic() > deadline:
                raise AssertionError(f"{description}: never, the focus is on {self.at()!r}")
            self.page.wait_for_timeout(20)
