"""Show a state: live in a terminal, as lines otherwise, once, or as JSON."""

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from det_cli.errors import FAILED, INTERRUPTED, OK, CommandError
from det_cli.live.charts import clock, span
from det_cli.live.observer import LONGEST_S, BackgroundObserver, Observation, Observer
from det_cli.live.text import Line, Segment, apart, encodable, fitted, line, plain, styled
from det_cli.render import print_json, say

State = TypeVar("State")
_STALE_S = 3 * LONGEST_S


@dataclass(frozen=True)
class View(Generic[State]):
    """Defines the lines, the one-line text and the JSON data of a state, and when the watch ends."""

    lines: Callable[[State, int, float], list[Line]]  # arguments: state, columns, current time
    one_line: Callable[[State], str]
    data: Callable[[State], Any]
    code: Callable[[State], "int | None"] = lambda state: None


def show(observer: Observer[State], view: View[State], *, once: bool, as_json: bool) -> int:
    """Show the observed state until the watch ends. Return the exit code."""
    if once:
        return _show_once(observer, view, as_json=as_json)
    if as_json or not _can_show():
        return _follow(observer, view, as_json=as_json)
    return _live(observer, view)


def _can_show() -> bool:
    try:
        from det_cli.live import terminal
    except ImportError:  # Windows has no termios
        return False
    return terminal.can_show()


def _show_once(observer: Observer[State], view: View[State], *, as_json: bool) -> int:
    state = _state_or_raise(observer.look())
    if as_json:
        print_json(view.data(state))
    else:
        print_lines(view.lines(state, shutil.get_terminal_size((120, 24)).columns, time.time()))
    code = view.code(state)
    return OK if code is None else code


def print_lines(lines: list[Line]) -> None:
    """Print lines, with colours if the output is a terminal."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for one in lines:
        print(encodable(styled(one, colour=colour).rstrip(), sys.stdout.encoding))


def _state_or_raise(news: Observation[State]) -> State:
    if news.failure is not None:
        raise news.failure
    if news.state is None:
        raise CommandError(news.outage, "`det version` shows if the cluster answers")
    return news.state


def _follow(observer: Observer[State], view: View[State], *, as_json: bool) -> int:
    """Print a line at each change. Report outages on stderr."""
    printed = ""
    outage = ""
    while True:
        news = observer.look()
        if news.failure is not None:
            raise news.failure
        if news.outage and not outage:
            say(f"No answer, trying again: {news.outage}")
        elif outage and not news.outage:
            say("The cluster answers again.")
        outage = news.outage
        if news.state is not None and not news.outage:
            printed = _print_change(news.state, view, printed, as_json=as_json)
            code = view.code(news.state)
            if code is not None:
                return code
        time.sleep(news.pause_s)


def _print_change(state: State, view: View[State], printed: str, *, as_json: bool) -> str:
    current = json.dumps(view.data(state), sort_keys=True) if as_json else view.one_line(state)
    if current != printed:
        text = current if as_json else f"{clock(time.time())} {plain(line(current))}"
        print(encodable(text, sys.stdout.encoding), flush=True)
    return current


def _live(observer: Observer[State], view: View[State]) -> int:
    from det_cli.live.terminal import Ended, Terminal

    _state_or_raise(observer.look())
    terminal = Terminal(sys.stdout)
    background = BackgroundObserver(observer, terminal.wake)
    screen = Screen(view, has_keys=terminal.has_keys)
    code: int | None = None
    try:
        with terminal.full_screen():
            background.start()
            while code is None:
                code = _turn(observer, screen, terminal)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Ended as e:
        code = 128 + e.number
    finally:
        # Close the pipe only if the thread has ended. If a request hangs, the process ends the thread.
        if background.stop(1.0):
            terminal.close()
    state = observer.news.state
    if screen.is_over and state is not None:
        size = shutil.get_terminal_size()
        print_lines(view.lines(state, size.columns, time.time())[: size.lines - 1])
    return code


def _turn(observer: Observer[State], screen: "Screen[State]", terminal: Any) -> "int | None":
    """Draw the screen, wait, and handle keys. Return the exit code if the watch has ended."""
    news = observer.news
    if news.failure is not None:
        raise news.failure
    columns, rows = terminal.size()
    terminal.draw(
        screen.texts(news, columns, rows, time.time(), colour=not os.environ.get("NO_COLOR"))
    )
    if screen.is_over:
        return screen.code
    keys = terminal.wait(1.0)
    if "quit" in keys:
        return OK
    for key in keys:
        screen.press(key)
    return None


class Screen(Generic[State]):
    """Shows a scrollable part of a screen in the terminal's window."""

    def __init__(self, view: View[State], *, has_keys: bool = True) -> None:
        self._view = view
        self._has_keys = has_keys
        self._first = 0
        self._room = 1
        self._length = 0
        self.is_over = False
        self.code = FAILED

    def press(self, key: str) -> None:
        page = max(self._room - 1, 1)
        moves = {"up": -1, "down": 1, "page up": -page, "page down": page}
        places = {"home": 0, "end": self._length}
        self._first = places.get(key, self._first + moves.get(key, 0))

    def lines(self, news: Observation[State], columns: int, rows: int, now: float) -> list[Line]:
        """Return exactly `rows` lines: a part of the screen and a footer."""
        body: list[Line] = [line("Connecting to the cluster …")]
        if news.state is not None:
            body = self._view.lines(news.state, columns, now)
            code = self._view.code(news.state)
            if code is not None:
                self.is_over, self.code = True, code
        self._length, self._room = len(body), max(rows - 1, 1)
        self._first = min(max(self._first, 0), max(len(body) - self._room, 0))
        window = [fitted(one, columns) for one in body[self._first : self._first + self._room]]
        window += [()] * (self._room - len(window))
        return [*window, self._foot(news, columns, now)]

    def texts(
        self, news: Observation[State], columns: int, rows: int, now: float, *, colour: bool
    ) -> list[str]:
        encoding = sys.stdout.encoding
        drawn = self.lines(news, columns, rows, now)
        return [encodable(styled(one, colour=colour), encoding) for one in drawn]

    def _foot(self, news: Observation[State], columns: int, now: float) -> Line:
        quit_by = "q quit" if self._has_keys else "Ctrl-C quit"
        last = self._first + self._room
        where = ""
        if self._length > self._room:
            where = f"  ↑↓ lines {self._first + 1}–{min(last, self._length)} of {self._length}"
        left_side = line(Segment(f"{quit_by}{where}", "dim"))
        old_s = now - news.seen_at
        if news.outage:
            message = Segment(f"  no answer for {span(old_s)}: {news.outage}", "bad")
            return fitted(line(Segment(quit_by, "dim"), message), columns)
        time_text = (
            f"updated {span(old_s)} ago" if old_s > _STALE_S else clock(math.floor(news.seen_at))
        )
        return apart(left_side, line(Segment(time_text, "dim")), columns)
