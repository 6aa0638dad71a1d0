"""Detect that the scheduler preempts this task."""

import enum
import logging
import threading
import time
from typing import Optional

from determined import _progress
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.core._distributed import DistributedContext
from determined.core._json import encode
from determined.core._outbox import Outbox

logger = logging.getLogger("determined.core")

POLL_S = 60
READ_TIMEOUT_S = 70.0
RETRY_S = 5.0
ACK_WAIT_S = 60.0


class PreemptMode(enum.Enum):
    """The workers that check for preemption: all of them through the chief, only the chief, or each by itself."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class PreemptionWatcher:
    """A thread that keeps one long poll open at the agent's gateway until the response is `preempt: true`."""

    def __init__(self, session: Session, allocation_id: str) -> None:
        self._session = session
        self._path = f"/api/v1/allocations/{allocation_id}/signals/preemption"
        self._preempted = threading.Event()
        self._ends_at: Optional[float] = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="determined-preemption", daemon=True)

    def start(self) -> None:
        # The first request returns at once, so that a preemption during the start is detected early.
        self._ask(0)
        self._thread.start()

    def stop(self) -> None:
        # The thread may be in a long poll. As a daemon thread, it ends with the process.
        self._stopping.set()

    def is_preempted(self) -> bool:
        return self._preempted.is_set()

    def seconds_left(self) -> Optional[float]:
        """Return the time until the end of the preempted run, or None if it is not preempted or has no limit."""
        return None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    def _run(self) -> None:
        failed = False
        while not self._stopping.is_set():
            # A preempted run still asks, because a notice of the cloud may shorten its time.
            if (failed or self._preempted.is_set()) and self._stopping.wait(RETRY_S):
                break
            failed = not self._ask(POLL_S)
        self._session.close()

    def _ask(self, seconds: int) -> bool:
        try:
            answer = self._session.get(
                self._path, params={"timeoutSeconds": seconds}, timeout_s=READ_TIMEOUT_S
            )
        except (APIError, MasterUnreachableError) as e:
            if not self._stopping.is_set():
                logger.warning("cannot ask whether this task is preempted: %s", e)
            return False
        answer = answer or {}
        if answer.get("preempt"):
            left_s = answer.get("secondsLeft")
            self._ends_at = None if left_s is None else time.monotonic() + float(left_s)
            self._preempted.set()
        return True


class PreemptContext:
    """The preemption of a trial. When `should_preempt()` is true, save a checkpoint and exit with status 0."""

    def __init__(
        self,
        session: Session,
        allocation_id: str,
        distributed: DistributedContext,
        preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
        outbox: Optional[Outbox] = None,
    ) -> None:
        self._session = session
        self._allocation_id = allocation_id
        self._distributed = distributed
        self._mode = preempt_mode
        self._outbox = outbox
        self._ack_sent = False
        watches = distributed.rank == 0 or preempt_mode is PreemptMode.WorkersAskMaster
        self._watcher = PreemptionWatcher(session, allocation_id) if watches else None
        self._started = False

    def start(self) -> "PreemptContext":
        if self._watcher is not None and not self._started:
            self._watcher.start()
        self._started = True
        return self

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()

    def __enter__(self) -> "PreemptContext":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """Return whether to stop; call it between batches. With `auto_ack`, the first True is acknowledged."""
        self._check_started()
        _progress.mark()
        preempted = self._decide()
        if preempted and auto_ack and self._distributed.rank == 0:
            self.acknowledge_preemption_signal()
        return preempted

    def seconds_left(self) -> Optional[float]:
        """Return the seconds until the cluster or the cloud ends this preempted run.

        Return None if it is not preempted, if its time is not known, and on ranks that do not watch for preemptions.
        """
        return self._watcher.seconds_left() if self._watcher else None

    def acknowledge_preemption_signal(self) -> None:
        """Announce that the trial will save and exit. Exit status 0 then means that it should be resumed."""
        if self._ack_sent:
            return
        path = f"/api/v1/allocations/{self._allocation_id}/signals/ack_preemption"
        body = {"allocationId": self._allocation_id}
        if self._outbox is None:
            self._session.post(path, body)
        else:
            # Sent after all earlier reports. If the agent is away longer, the program saves its checkpoint meanwhile.
            self._outbox.put(path, encode(body))
            self._outbox.flush(timeout_s=ACK_WAIT_S)
        self._ack_sent = True

    def _check_started(self) -> None:
        if not self._started:
            raise RuntimeError(
                "cannot call PreemptContext.should_preempt() before PreemptContext.start(): enter the context "
                "(`with core.init() as core_context:`), or call core_context.start()"
            )

    def _decide(self) -> bool:
        if self._mode is PreemptMode.WorkersAskChief:
            preempted = self._watcher.is_preempted() if self._watcher else None
            return bool(self._distributed.broadcast(preempted))
        if self._watcher is None:
            raise self._not_chief_error()
        return self._watcher.is_preempted()

    def _not_chief_error(self) -> RuntimeError:
        return RuntimeError(
            "with preempt_mode=ChiefOnly only the chief may ask, but .should_preempt() was called from non-chief "
            f"worker of rank={self._distributed.rank}"
        )


class DummyPreemptContext(PreemptContext):
    """The preemption of a script outside of a cluster, which is never preempted."""

    def __init__(
        self,
        distributed: DistributedContext,
        preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    ) -> None:
        self._distributed = distributed
        self._mode = preempt_mode
        self._started = False

    def start(self) -> "PreemptContext":
        self._started = True
        return self

    def close(self) -> None:
        pass

    def should_preempt(self, auto_ack: bool = True) -> bool:
        self._check_started()
        if self._mode is PreemptMode.ChiefOnly and self._distributed.rank != 0:
            raise self._not_chief_error()
        return False

    def seconds_left(self) -> Optional[float]:
        return None

    def acknowledge_preemption_signal(self) -> None:
        pass
