"""GPUs that fail while the machine runs, as the driver's tool shows them."""

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from det_agent.gpus import GpuNotices, Gpus
from det_agent.health import Health
from det_agent.runtime import StartFailed
from det_controlplane.core.agent_protocol import MachineSignal, Slot

from tests.agent.conftest import StartAgent
from tests.support.agents import make_spec
from tests.support.fake_controlplane import FakeControlPlane

SLOTS = (Slot(0, "cuda", "GPU-a", "A10G"), Slot(1, "cuda", "GPU-b", "A10G"))


WELL = "GPU-a, 0, 00000000:07:00.0\nGPU-b, 0, 00000000:1E:00.0\n"
XID = (
    "NVRM: Xid (PCI:{bus}): {code}, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
)


class Driver:
    """Play the driver's tools: nvidia-smi, and the kernel's log."""

    def __init__(self, shows: str, log: str = "") -> None:
        self.shows = shows
        self.log = log
        self.asked = 0

    def __call__(self, command: Sequence[str]) -> str:
        self.asked += 1
        if command[0] == "journalctl":
            assert command[-1].startswith("--since=@1"), (
                "earlier lines of the kernel log are not read"
            )
            return self.log
        assert command[0] == "nvidia-smi"
        return self.shows


def each_minute() -> Callable[[], float]:
    """Return a clock that advances by a minute at each reading."""
    return itertools.count(0.0, 60.0).__next__


def trouble(shows: str) -> str:
    gpus = Gpus(SLOTS, Driver(shows), each_minute())
    gpus.check()
    with pytest.raises(StartFailed) as error:
        gpus.check()
    return str(error.value)


@pytest.mark.parametrize("errors", ["0", "[N/A]", "[Not Supported]"])
def test_present_gpus_pass(errors: str) -> None:
    gpus = Gpus(SLOTS, Driver(f"GPU-a, {errors}\nGPU-b, {errors}\n"))
    for _ in range(3):
        gpus.check()


def test_missing_gpu_is_reported_after_two_checks() -> None:
    assert "GPU 1 (GPU-b) is gone" in trouble("GPU-a, 0\n")


def test_empty_driver_output_is_reported() -> None:
    assert "nvidia-smi shows no GPU" in trouble("")


def test_uncorrected_memory_errors_are_reported() -> None:
    assert "GPU 0 (GPU-a) has 3 memory errors" in trouble("GPU-a, 3\nGPU-b, 0\n")


def test_simultaneous_failed_checks_count_once() -> None:
    now = [0.0]
    gpus = Gpus(SLOTS, Driver(""), lambda: now[0])
    for _ in range(3):
        gpus.check()
    now[0] = 10.0
    with pytest.raises(StartFailed):
        gpus.check()


def test_single_failure_is_ignored() -> None:
    driver = Driver("")
    gpus = Gpus(SLOTS, driver, each_minute())
    for _ in range(3):
        driver.shows = ""
        gpus.check()
        driver.shows = "GPU-a, 0\nGPU-b, 0\n"
        gpus.check()


def test_other_slots_do_not_query_the_driver() -> None:
    driver = Driver("")
    gpus = Gpus([Slot(0, "cpu", "cpu", "CPU")], driver)
    gpus.check()
    assert not gpus.are_checked
    assert driver.asked == 0


@pytest.mark.parametrize("bus", ["0000:1e:00", "0000:1e:00.0"])
def test_fatal_driver_error_is_reported_at_once(bus: str) -> None:
    driver = Driver(WELL)
    gpus = Gpus(SLOTS, driver)
    gpus.check()
    driver.log = "eth0: link up\n" + XID.format(bus=bus, code=79)
    driver.shows = "GPU-a, 0, 00000000:07:00.0\n"
    for _ in range(3):
        with pytest.raises(StartFailed) as error:
            gpus.check()
        assert error.value.failure == "agent_error"
        assert "GPU 1 (GPU-b) reported Xid 79, it has fallen off the bus" in str(error.value)


@pytest.mark.parametrize(
    ("bus", "code"),
    [("0000:1e:00", 13), ("0000:1e:00", 31), ("0000:1e:00", 43), ("0000:99:00", 79)],
    ids=["exception", "page fault", "reset channel", "another GPU"],
)
def test_errors_of_programs_and_other_gpus_are_ignored(bus: str, code: int) -> None:
    gpus = Gpus(SLOTS, Driver(WELL, XID.format(bus=bus, code=code)))
    for _ in range(3):
        gpus.check()


@pytest.mark.parametrize(
    ("shows", "log"),
    [(WELL, XID.format(bus="0000:07:00", code=79)), ("GPU-b, 0, 00000000:1E:00.0\n", "")],
    ids=["by the driver", "by two checks"],
)
def test_failed_gpu_drains_a_rented_machine(shows: str, log: str) -> None:
    driver = Driver(WELL)
    gpus = Gpus(SLOTS, driver, each_minute())
    health = Health(gpus.check, lambda: None)
    notices = GpuNotices(gpus, health)
    health.check()
    assert (notices.look(), health.out_of_service) == ((), "")
    driver.shows, driver.log = shows, log
    for _ in range(2):
        health.check()
    assert notices.look() == (MachineSignal("maintenance"),)
    assert "GPU 0 (GPU-a)" in health.out_of_service


SMI = """#!/bin/sh
echo asked >> {folder}/asked
case "$1" in
    *pci.bus_id*) echo 'GPU-a, 0, 00000000:07:00.0' ;;
    *) echo '0, GPU-a, A10G' ;;
esac
"""


def driver_tools(folder: Path) -> dict[str, str]:
    """Make tools of a machine with one GPU; return the environment that finds them first."""
    tools = folder / "tools"
    tools.mkdir()
    (folder / "kernel.log").touch()
    reading = f"#!/bin/sh\ncat {folder}/kernel.log\n"
    for name, text in {"nvidia-smi": SMI.format(folder=folder), "journalctl": reading}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    return {"PATH": f"{tools}:{os.environ['PATH']}"}


def test_failed_gpu_does_not_count_as_a_restart_of_its_task(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    """The kernel's line may hold the name of a process that is cut inside a letter."""
    start_agent(driver_tools(tmp_path), runtime="process", slots="cuda")
    log = tmp_path / "kernel.log"
    log.write_bytes("Killed process 7 (naï".encode()[:-1] + b")\n")
    spec = make_spec(f'echo "{XID.format(bus="0000:07:00", code=79).strip()}" >> {log}; exit 1')
    plane.want(spec)
    report = plane.until_state(spec["container_id"], "terminated")
    assert (report["failure"], report["exit_code"]) == ("agent_error", 1)
    assert "reported Xid 79" in report["message"]
    plane.until(lambda: "reported Xid 79" in plane.out_of_service)


def test_killed_container_does_not_query_gpus(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    start_agent(driver_tools(tmp_path), runtime="process", slots="cuda")
    spec = make_spec("sleep 600")
    plane.want(spec)
    plane.until_state(spec["container_id"], "running")
    (tmp_path / "asked").unlink()
    plane.kill(spec["container_id"])
    plane.until_state(spec["container_id"], "terminated")
    assert not (tmp_path / "asked").exists()
