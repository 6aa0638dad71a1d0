"""Browser pages that tests use one after another.

A new page costs a process and reads all scripts again, three times the cost of a visit on a kept page.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

HEIGHT = 900
# A page of the same origin without scripts.
_QUIET = "/info"
_BEGIN = """isSignedIn => {
    localStorage.clear();
    sessionStorage.clear();
    if (isSignedIn) localStorage.setItem("signed-in", "1");
}"""
# The clock that a test installs stays for good; its Date says that it is the browser's.
_HAS_REAL_CLOCK = "() => /native code/.test(setTimeout)"


@dataclass
class KeptPage:
    """A page with its own cookies, and functions that undo the additions of a test."""

    base: str
    page: Any
    _undo: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        page, context = self.page, self.page.context
        on, new_session = page.on, context.new_cdp_session

        def noted_on(event: str, message: Any) -> None:
            on(event, message)
            self._undo.append(lambda: page.remove_listener(event, message))

        def noted_session(of: Any) -> Any:
            session = new_session(of)
            self._undo.append(session.detach)
            return session

        page.on, context.new_cdp_session = noted_on, noted_session

    def begin(self, *, signed_in: bool, width: int, theme: str) -> None:
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        self.page.evaluate(_BEGIN, signed_in)

    def leave(self) -> bool:
        """Make ready for another test; false where that cannot be."""
        context = self.page.context
        for undo in self._undo:
            undo()
        self._undo.clear()
        for other in context.pages:
            if other is not self.page:
                other.close()
        self.page.unroute_all(behavior="ignoreErrors")
        context.clear_cookies()
        context.clear_permissions()
        self.page.goto(self.base + _QUIET)
        return bool(self.page.evaluate(_HAS_REAL_CLOCK))


class KeptPages:
    """The pages of a browser that no test is at."""

    def __init__(self, browser: Any, patience_ms: int) -> None:
        self._browser, self._patience_ms = browser, patience_ms
        self._free: list[KeptPage] = []

    def take(self, base: str) -> KeptPage:
        while self._free:
            page = self._free.pop()
            if page.base == base:
                return page
            page.page.context.close()
        context = self._browser.new_context()
        context.set_default_timeout(self._patience_ms)
        kept_page = KeptPage(base, context.new_page())
        kept_page.page.goto(base + _QUIET)
        return kept_page

    def give_back(self, page: KeptPage) -> None:
        from playwright.sync_api import Error

        with suppress(Error):  # its server may have ended
            if page.leave():
                self._free.append(page)
                return
        page.page.context.close()
