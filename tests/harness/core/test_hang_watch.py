"""A run without progress writes the stacks of its ranks to the log and asks the cluster to end it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from determined import _progress
from determined.common.http import MasterUnreachableError
from determined.exec._watch import HangWatch, hang_timeout_s

_RANK = """
import sys, time
from determined import _progress
_progress.start()
def stuck_in_an_exchange():
    print("ready", flush=True)
    time.sleep(600)
stuck_in_an_exchange()
"""


class Cluster:
    """Plays the session of the entry program: it knows the progress of another container."""

    def __init__(self, other_age_s: float = 1e9) -> None:
        self.other_age_s = other_age_s
        self.sent: list[tuple[str, Any]] = []
        self.is_away = False

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.is_away:
            raise MasterUnreachableError("http://cluster", "away")
        self.sent.append((path.rpartition("/")[2], body))
        if path.endswith("/hang"):
            return {"hung": True}
        return {"ageSeconds": min(self.other_age_s, body["ageSeconds"])}

    @property
    def calls(self) -> list[str]:
        return [name for name, _ in self.sent]


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str, level: str = "") -> None:
        self.lines.append(line)


def rounds(count: int) -> Callable[[float], bool]:
    """Return a wait that ends at once, and stops the watch after so many rounds."""
    waits = iter([False] * count)
    return lambda _: next(waits, True)


def watch(cluster: Cluster, log: Log, folder: Path, count: int = 20) -> HangWatch:
    hang_watch = HangWatch(cluster, "7.1", 60, log, str(folder), rounds(count))  # type: ignore[arg-type]
    hang_watch._started -= 3600
    return hang_watch


@pytest.fixture
def rank(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    env = {**os.environ, _progress.VARIABLE: str(tmp_path), "RANK": "3"}
    process = subprocess.Popen(
        [sys.executable, "-c", _RANK], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def age(process: "subprocess.Popen[str]", folder: Path, seconds: float) -> None:
    path = folder / f"3.{process.pid}"
    os.utime(path, (time.time() - seconds,) * 2)


def test_a_run_without_progress_writes_stacks_and_asks_for_its_end(
    rank: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    cluster, log = Cluster(), Log()
    age(rank, tmp_path, 100)
    watch(cluster, log, tmp_path).run()
    assert cluster.calls == ["progress", "hang"]
    assert "No rank has made progress for 100 s" in log.lines[0]
    assert rank.stderr is not None
    stack = [rank.stderr.readline() for _ in range(2)]
    assert "most recent call first" in stack[0]
    assert "stuck_in_an_exchange" in stack[1]
    assert rank.poll() is None, "the cluster ends the run, not the signal"


def test_progress_of_another_container_counts(
    rank: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    cluster, log = Cluster(other_age_s=5), Log()
    age(rank, tmp_path, 100)
    watch(cluster, log, tmp_path).run()
    assert set(cluster.calls) == {"progress"}
    assert log.lines == []


def test_progress_of_a_rank_counts(rank: "subprocess.Popen[str]", tmp_path: Path) -> None:
    cluster = Cluster()
    age(rank, tmp_path, 30)
    watch(cluster, Log(), tmp_path).run()
    assert set(cluster.calls) == {"progress"}


def test_an_ended_rank_does_not_count(rank: "subprocess.Popen[str]", tmp_path: Path) -> None:
    rank.kill()
    rank.wait()
    cluster, log = Cluster(), Log()
    watch(cluster, log, tmp_path).run()
    assert cluster.calls == ["progress", "hang"]
    assert "No rank has called" in log.lines[1]


def test_without_the_cluster_no_run_is_ended(rank: "subprocess.Popen[str]", tmp_path: Path) -> None:
    cluster, log = Cluster(), Log()
    cluster.is_away = True
    age(rank, tmp_path, 100)
    watch(cluster, log, tmp_path).run()
    assert log.lines == []


def test_a_process_marks_its_progress_once_per_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = _progress.Progress()
    progress.mark()
    assert list(tmp_path.iterdir()) == []
    progress._path = str(tmp_path / "0.1")
    progress.mark()
    os.utime(tmp_path / "0.1", (0, 0))
    progress.mark()
    assert (tmp_path / "0.1").stat().st_mtime == 0
    progress._next = 0.0
    progress.mark()
    assert (tmp_path / "0.1").stat().st_mtime > 0


def test_trials_without_a_timeout_are_not_watched() -> None:
    assert (
        hang_timeout_s({"DET_EXPERIMENT_CONFIG": '{"resources": {"hang_timeout": null}}'}) is None
    )
    assert hang_timeout_s({"DET_EXPERIMENT_CONFIG": '{"resources": {"hang_timeout": 600}}'}) == 600
