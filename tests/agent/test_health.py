"""An agent that cannot start containers takes no work until its check passes."""

import threading
from datetime import datetime, timezone
from pathlib import Path

import pytest
from det_agent import health
from det_agent.health import FAILURES_IN_A_ROW, Health
from det_agent.runtime import StartFailed


class Machine:
    """A runtime that can or cannot start containers. It counts reports to the control plane."""

    def __init__(self, first_recheck_s: float = health.FIRST_RECHECK_S) -> None:
        self.trouble = ""
        self.changes = 0
        self.told = threading.Event()
        self.health = Health(self.check, self.changed, first_recheck_s)

    def check(self) -> None:
        if self.trouble == "unforeseen":
            raise ValueError(self.trouble)
        if self.trouble:
            raise StartFailed("agent_error", self.trouble)

    def changed(self) -> None:
        self.changes += 1
        self.told.set()


def test_failing_check_at_the_start_is_the_reason() -> None:
    machine = Machine()
    machine.trouble = "the Docker engine does not answer"
    machine.health.check()
    assert machine.health.out_of_service == "the Docker engine does not answer"


def test_repeated_failures_take_the_agent_out_of_service() -> None:
    machine = Machine()
    for _ in range(FAILURES_IN_A_ROW - 1):
        machine.health.container_failed_to_start("no space left on device")
    assert machine.health.out_of_service == ""
    machine.health.container_failed_to_start("no space left on device")
    assert machine.health.out_of_service == (
        "3 containers in a row could not be started: no space left on device"
    )
    assert machine.changes == 1


def test_started_container_resets_the_failure_count() -> None:
    machine = Machine()
    for _ in range(5):
        machine.health.container_failed_to_start("flaky")
        machine.health.container_failed_to_start("flaky")
        machine.health.container_started()
    assert machine.health.out_of_service == ""


@pytest.mark.parametrize("trouble", ["down", "unforeseen"])
def test_agent_returns_to_service_when_its_check_passes(trouble: str) -> None:
    machine = Machine(first_recheck_s=0.01)
    machine.trouble = trouble
    machine.health.check()
    assert trouble in machine.health.out_of_service
    machine.told.clear()
    machine.health.start()
    machine.trouble = ""
    assert machine.told.wait(30)
    assert machine.health.out_of_service == ""
    machine.health.stop()


def test_unexpected_error_of_a_watch_check_is_ignored() -> None:
    def look() -> None:
        raise ValueError("an answer that nobody expected")

    health = Health(lambda: None, lambda: None, look=look)
    assert (health.look(), health.out_of_service) == ("", "")


def test_failed_watch_check_takes_the_agent_out_of_service() -> None:
    changed = threading.Event()

    def look() -> None:
        raise StartFailed("agent_error", "GPU 0 is gone")

    watched_health = Health(lambda: None, changed.set, first_recheck_s=600, look=look, look_s=0.01)
    watched_health.start()
    assert changed.wait(30)
    assert watched_health.out_of_service == "GPU 0 is gone"
    watched_health.stop()


def test_rechecks_become_less_frequent_while_starts_fail() -> None:
    machine = Machine()
    waits = []
    for _ in range(8):
        waits.append(machine.health.next_recheck_s())
    assert waits[:3] == [10.0, 20.0, 40.0]
    assert waits[-1] == health.LONGEST_RECHECK_S
    machine.health.container_started()
    assert machine.health.next_recheck_s() == 10.0


@pytest.mark.parametrize(("text", "age"), [("2026-11-01T00:00:00Z\n", 3600.0), ("yesterday", None)])
def test_age_of_the_image_is_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, age: float | None
) -> None:
    path = tmp_path / "built-at"
    path.write_text(text)
    now = datetime(2026, 11, 1, 1, tzinfo=timezone.utc).timestamp()
    monkeypatch.setattr("det_agent.health.time.time", lambda: now)
    assert health.image_age_s(path) == age


def test_public_image_has_no_age(tmp_path: Path) -> None:
    assert health.image_age_s(tmp_path / "built-at") is None


def test_uptime_is_the_time_of_the_kernel() -> None:
    uptime_s = health.uptime_s()
    assert uptime_s == pytest.approx(float(Path("/proc/uptime").read_text().split()[0]), abs=2)
