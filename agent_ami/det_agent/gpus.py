"""Check that this machine's GPUs work, with nvidia-smi and the driver's lines in the kernel log."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from det_controlplane.core.agent_protocol import MachineSignal, Slot

from det_agent.health import Health
from det_agent.runtime import StartFailed
from det_agent.slots import QueryTool, run_tool

LOOK_S = 60.0
LOG_LOOK_S = 5.0
# A failure counts only if it lasts. Containers often end together, so two failed checks at once prove little.
BELIEVED_AFTER_S = 10.0
_COLUMNS = "uuid,ecc.errors.uncorrected.volatile.total,pci.bus_id"
_QUERY = ("nvidia-smi", f"--query-gpu={_COLUMNS}", "--format=csv,noheader")
_KERNEL_LOG = ("journalctl", "--dmesg", "--output=cat", "--no-pager", "--quiet")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+)")
# NVIDIA recommends to reset or replace the GPU after these errors. Errors of programs (13, 31, 43, 45) are excluded.
_FATAL = {
    46: "it stopped processing",
    48: "a memory error that ECC could not correct",
    62: "its controller halted",
    64: "a bad row of memory could not be retired",
    74: "an error of NVLink",
    79: "it has fallen off the bus",
    95: "a memory error that was not contained",
    119: "its system processor does not answer",
    120: "its system processor failed",
    136: "its NVLinks could not be trained",
    140: "a memory error that was not recovered",
    143: "it could not be initialized",
}


class _GpuStatus(NamedTuple):
    """A GPU in the output of nvidia-smi."""

    uuid: str
    errors: str
    bus: str


class Gpus:
    """Compare the GPUs that the driver shows with the GPUs of this agent."""

    def __init__(
        self,
        slots: Sequence[Slot],
        query: QueryTool = run_tool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._expected = [slot for slot in slots if slot.type == "cuda"]
        self._query = query
        self._clock = clock
        self._checking = threading.Lock()
        self._failing_since: float | None = None
        self._confirmed = ""
        self._since = int(time.time())  # errors before a GPU reset do not count
        self._buses: dict[str, str] = {}  # by UUID, because a lost GPU is not listed any more

    @property
    def are_checked(self) -> bool:
        return bool(self._expected)

    def check(self) -> None:
        """Check the GPUs now. Raises StartFailed if the driver logged a failure.

        A lost GPU or lost memory only counts if an earlier check found it too."""
        if not self._expected:
            return
        with self._checking:
            self._confirmed = self._confirmed_failure()
        if failure := self.failure():
            raise StartFailed("agent_error", failure)

    def failure(self) -> str:
        """Return the logged failure, or the failure of the last check, or ''."""
        return next(self._fatal_errors(), "") or self._confirmed

    def _confirmed_failure(self) -> str:
        """Return a failure that the driver's tool reports now and reported before, or ''."""
        problem = next(self._problems(), "")
        if not problem:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._clock()
        elif self._clock() - self._failing_since >= BELIEVED_AFTER_S:
            return problem
        return ""

    def _problems(self) -> Iterator[str]:
        shown = {gpu.uuid: gpu for gpu in map(_cells, self._query(_QUERY).splitlines())}
        self._buses |= {gpu.uuid: _bus(gpu.bus) for gpu in shown.values()}
        if not shown:
            yield "nvidia-smi shows no GPU any more: the driver lost it, see `dmesg | grep Xid`"
        for slot in self._expected:
            if slot.uuid not in shown:
                yield f"GPU {slot.id} ({slot.uuid}) is gone: the driver lost it, see `dmesg | grep Xid`"
            elif (errors := shown[slot.uuid].errors).isdigit() and int(errors):
                yield f"GPU {slot.id} ({slot.uuid}) has {errors} memory errors that ECC could not correct"

    def _fatal_errors(self) -> Iterator[str]:
        """Yield fatal errors of this agent's GPUs in the kernel log since the agent started."""
        own = {self._buses[slot.uuid]: slot for slot in self._expected if slot.uuid in self._buses}
        for bus, code in _XID.findall(self._query((*_KERNEL_LOG, f"--since=@{self._since}"))):
            slot, meaning = own.get(_bus(bus)), _FATAL.get(int(code))
            if slot is not None and meaning is not None:
                yield (
                    f"GPU {slot.id} ({slot.uuid}) reported Xid {code}, {meaning}: reset it or restart the machine,"
                    " then the agent"
                )


class GpuNotices:
    """Report a failed GPU as the end of a rented machine, so that its work saves a checkpoint and moves."""

    interval_s = LOG_LOOK_S

    def __init__(self, gpus: Gpus, health: Health) -> None:
        self._gpus = gpus
        self._health = health

    def look(self) -> Sequence[MachineSignal]:
        failure = self._gpus.failure()
        if not failure:
            return ()
        self._health.leave_service(failure)
        return (MachineSignal("maintenance"),)


def _cells(line: str) -> _GpuStatus:
    uuid, errors, bus, *_ = (*(cell.strip() for cell in line.split(",")), "", "", "")
    return _GpuStatus(uuid, errors, bus)


def _bus(text: str) -> str:
    """Normalise a PCI address: nvidia-smi writes 00000000:07:00.0 and the kernel writes 0000:07:00."""
    return text.lower().partition(".")[0].lstrip("0:")
