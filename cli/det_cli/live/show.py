"""Show a state: as a live picture in a terminal, as lines without one, once, or as JSON."""

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
from det_cli.live.observer import LONGEST_S, BackgroundObserver, Observation, Observer
from det_cli.live.pictures import clock, span
from det_cli.live.text import Line, Segment, apart, encodable, fitted, line, plain, styled
from det_cli.render import print_json, say

State = TypeVar("State")
_STALE_S = 3 * LONGEST_S


@dataclass(frozen=True)
class Picture(Generic[State]):
    """Defines how a state is drawn, written in one line and given as data, and when the watch ends."""

    lines: Callable[[State, int, float], list[Line]]  # of columns, at a time
    one_line: Callable[[State], str]
    data: Callable[[State], Any]
    code: Callable[[State], "int | None"] = lambda state: None


def show(observer: Observer[State], picture: Picture[State], *, once: bool, as_json: bool) -> int:
    """Show the observed state until the watch ends; return the exit code."""
    if once:
        return _show_once(observer, picture, as_json=as_json)
    if as_json or not _can_show():
        return _follow(observer, picture, as_json=as_json)
    return _live(observer, picture)


def _can_show() -> bool:
    try:
        from det_cli.live import terminal
    except ImportError:  # Windows has no termios
        return False
    return terminal.can_show()


def _show_once(observer: Observer[State], picture: Picture[State], *, as_json: bool) -> int:
    state = _seen(observer.look())
    if as_json:
        print_json(picture.data(state))
    else:
        print_lines(picture.lines(state, shutil.get_terminal_size((120, 24)).columns, time.time()))
    code = picture.code(state)
    return OK if code is None else code


def print_lines(lines: list[Line]) -> None:
    """Print lines for good, in colours where the output is a terminal."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for one in lines:
        print(encodable(styled(one, colour=colour).rstrip(), sys.stdout.encoding))


def _seen(news: Observation[State]) -> State:
    if news.failure is not None:
        raise news.failure
    if news.state is None:
        raise CommandError(news.outage, "`det version` tells whether the cluster answers")
    return news.state


def _follow(observer: Observer[State], picture: Picture[State], *, as_json: bool) -> int:
    """Print a line at each change; outages are reported on stderr."""
    told = ""
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
            told = _tell_change(news.state, picture, told, as_json=as_json)
            code = picture.code(news.state)
            if code is not None:
                return code
        time.sleep(news.pause_s)


def _tell_change(state: State, picture: Picture[State], told: str, *, as_json: bool) -> str:
    now = json.dumps(picture.data(state), sort_keys=True) if as_json else picture.one_line(state)
    if now != told:
        text = now if as_json else f"{clock(time.time())} {plain(line(now))}"
        print(encodable(text, sys.stdout.encoding), flush=True)
    return now


def _live(observer: Observer[State], picture: Picture[State]) -> int:
    from det_cli.live.terminal import Ended, Terminal

    _seen(observer.look())
    terminal = Terminal(sys.stdout)
    looking = BackgroundObserver(observer, terminal.wake)
    screen = Screen(picture, has_keys=terminal.has_keys)
    code: int | None = None
    try:
        with terminal.lent():
            looking.start()
            while code is None:
                code = _turn(observer, screen, terminal)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Ended as e:
        code = 128 + e.number
    finally:
        # Within this time a cluster that works has answered; the thread of another one ends with the process.
        if looking.stop(1.0):
            terminal.close()
    state = observer.news.state
    if screen.is_over and state is not None:
        size = shutil.get_terminal_size()
        print_lines(picture.lines(state, size.columns, time.time())[: size.lines - 1])
    return code


def _turn(observer: Observer[State], screen: "Screen[State]", terminal: Any) -> "int | None":
    """Draw, wait, and take keys; return the exit code when it is over."""
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
    """Fit a picture into a window that can be moved over it."""

    def __init__(self, picture: Picture[State], *, has_keys: bool = True) -> None:
        self._picture = picture
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
        """Return exactly the lines of a window: a part of the picture, and the notes below it."""
        body: list[Line] = [line("asking the cluster …")]
        if news.state is not None:
            body = self._picture.lines(news.state, columns, now)
            code = self._picture.code(news.state)
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
        left = line(Segment(f"{quit_by}{where}", "dim"))
        old_s = now - news.seen_at
        if news.outage:
            told = Segment(f"  no answer for {span(old_s)}: {news.outage}", "bad")
            return fitted(line(Segment(quit_by, "dim"), told), columns)
        at = f"seen {span(old_s)} ago" if old_s > _STALE_S else clock(math.floor(news.seen_at))
        return apart(left, line(Segment(at, "dim")), columns)
