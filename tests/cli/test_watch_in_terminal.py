"""`det experiment watch` in a terminal: keys, resizing, signals, and the restored terminal."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_api import RecordedRequest, Refusal
from tests.support.fake_cluster import FakeCluster, trial
from tests.support.pty_screen import Session, in_terminal

Start = Callable[..., AbstractContextManager[Session]]


@pytest.fixture
def training(cluster: FakeCluster, home: Path) -> FakeCluster:
    config = {"searcher": {"name": "single", "metric": "val_loss"}}
    cluster.add(3, username="determined", config=config, state="STATE_RUNNING", progress=0.5)
    return cluster


@pytest.fixture
def start(training: FakeCluster) -> Start:
    command = [sys.executable, "-m", "det_cli.main", "e", "watch", "3"]
    return partial(in_terminal, command, dict(os.environ))


def is_restored(watch: Session) -> bool:
    return watch.screen.cursor and not watch.screen.alternate and watch.screen.entered > 0


def shown(text: str) -> Callable[[Any], bool]:
    return lambda screen: text in screen.text


def test_view_is_shown_and_q_restores_the_terminal(start: Start) -> None:
    with start() as watch:
        watch.until(shown("q quit"), "the view")
        assert watch.screen.cells[0].startswith("experiment 3  RUNNING")
        assert not watch.screen.cursor
        watch.press("q")
        assert watch.end() == 0
        assert is_restored(watch)
        assert watch.echoes()


def test_last_column_is_shown(start: Start) -> None:
    with start() as watch:
        watch.until(shown("q quit"), "the view")
        time = watch.screen.cells[-1].rsplit(" ", 1)[-1]
        assert re.fullmatch(r"\d\d:\d\d:\d\d", time)
        assert len(watch.screen.cells[-1]) == watch.screen.columns
        watch.press("q")
        assert watch.end() == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_restore_the_terminal(start: Start, number: int, code: int) -> None:
    with start() as watch:
        watch.until(shown("q quit"), "the view")
        watch.signal(number)
        assert watch.end() == code
        assert is_restored(watch)
        assert watch.echoes()


def test_ctrl_c_ends_the_watch_without_message(start: Start) -> None:
    with start() as watch:
        watch.until(shown("q quit"), "the view")
        watch.press("\x03")
        assert watch.end() == 130
        assert is_restored(watch)
        assert "Traceback" not in watch.screen.before


def test_failure_is_printed_on_the_restored_terminal(training: FakeCluster, start: Start) -> None:
    with start() as watch:
        watch.until(shown("q quit"), "the view")
        del training.experiments[3]
        assert watch.end() == 3
        assert is_restored(watch)
        assert "experiment '3' not found" in watch.screen.before


def test_resized_terminal_is_redrawn(training: FakeCluster, start: Start) -> None:
    for id in range(100, 140):
        training.trials[id] = trial(id, 3)
    with start() as watch:
        watch.until(shown("lines 1–23"), "the view")
        watch.resize(60, 20)
        watch.until(shown("lines 1–19"), "the smaller view")
        assert all(len(cell) <= 60 for cell in watch.screen.cells)
        watch.resize(200, 60)
        watch.until(lambda s: "q quit" in s.cells[-1], "the larger view")
        assert "lines" not in watch.screen.text
        watch.press("q")
        assert watch.end() == 0


def test_keys_scroll_the_view(training: FakeCluster, start: Start) -> None:
    for id in range(100, 140):
        training.trials[id] = trial(id, 3)
    with start() as watch:
        for keys, first in (("", 1), ("\x1b[B", 2), ("j", 3), ("k", 2), (" ", 24), ("g", 1)):
            watch.press(keys)
            watch.until(shown(f"lines {first}–"), f"line {first} after {keys!r}")
        watch.press("G")
        watch.until(lambda s: re.search(r"lines (\d+)–(\d+) of \2", s.text), "the last line")
        watch.press("q")
        assert watch.end() == 0


def test_suspend_and_continue_keep_both_screens(start: Start) -> None:
    with start() as watch:
        watch.until(shown("q quit"), "the view")
        watch.press("\x1a")
        watch.until(lambda s: not s.alternate, "the restored terminal")
        assert os.waitpid(watch.process.pid, os.WUNTRACED)[1] & 0xFF == 0x7F
        assert watch.echoes()
        watch.signal(signal.SIGCONT)
        watch.until(lambda s: s.alternate and "q quit" in s.text, "the view after the pause")
        watch.press("q")
        assert watch.end() == 0


def test_outage_is_shown_with_the_last_view(training: FakeCluster, start: Start) -> None:
    outage: list[bool] = []
    experiment = training.experiments[3]

    def answer(_: RecordedRequest) -> Any:
        if outage:
            raise Refusal(503, "restarting")
        return {"experiment": experiment}

    training.on("GET", "/api/v1/experiments/3", answer)
    with start() as watch:
        watch.until(shown("q quit"), "the view")
        outage.append(True)
        watch.until(shown("no answer for"), "the outage")
        assert "experiment 3  RUNNING" in watch.screen.text
        outage.clear()
        experiment["progress"] = 0.75
        watch.until(lambda s: "75%" in s.text and "no answer" not in s.text, "the cluster again")
        watch.press("q")
        assert watch.end() == 0


def test_last_view_is_printed_at_the_end(training: FakeCluster, start: Start) -> None:
    with start() as watch:
        watch.until(shown("q quit"), "the view")
        training.experiments[3].update(state="STATE_COMPLETED", progress=1.0)
        assert watch.end() == 0
        assert "experiment 3  COMPLETED" in watch.screen.before


def test_terminal_escapes_in_names_are_escaped(training: FakeCluster, start: Start) -> None:
    training.experiments[3]["name"] = "\x1b[2J\x07<i>x</i>"
    with start(columns=120) as watch:
        watch.until(shown(r"\x1b[2J\x07<i>x</i>"), "the name as text")
        watch.press("q")
        assert watch.end() == 0


@pytest.mark.parametrize("variable", ["NO_COLOR", "NOTHING"])
def test_no_color_is_respected(
    start: Start, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    start.args[1].pop("NO_COLOR", None)  # type: ignore[attr-defined]
    start.args[1][variable] = "1"  # type: ignore[attr-defined]
    with start() as watch:
        watch.until(shown("q quit"), "the view")
        watch.press("q")
        assert watch.end() == 0
        assert watch.screen.coloured == (variable != "NO_COLOR")


@pytest.fixture
def lines_only(training: FakeCluster) -> Iterator[Session]:
    command = [sys.executable, "-m", "det_cli.main", "e", "watch", "3"]
    with in_terminal(["env", "TERM=dumb", *command], dict(os.environ)) as session:
        yield session


def test_dumb_terminal_gets_lines(training: FakeCluster, lines_only: Session) -> None:
    lines_only.until(lambda s: "RUNNING 50%" in s.before, "a line")
    training.experiments[3].update(state="STATE_COMPLETED")
    assert lines_only.end() == 0
    assert not lines_only.screen.entered
