"""Learn in time that the scheduler wants the slots back."""

import enum
import logging
import threading
from typing import Optional

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
    """The workers that ask for preemption: all through the chief (they agree), the chief alone, or each for itself."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class PreemptionWatcher:
    """A thread that holds one long poll at the agent's gateway until it answers `preempt: true`."""

    def __init__(self, session: Session, allocation_id: str) -> None:
        self._session = session
        self._path = f"/api/v1/allocations/{allocation_id}/signals/preemption"
        self._preempted = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="determined-preemption", daemon=True)

    def start(self) -> None:
        # One immediate question first: a task that is preempted while it starts learns it at once.
        self._ask(0)
        self._thread.start()

    def stop(self) -> None:
        # The thread may sit in a long poll; it is a daemon and ends with the process.
        self._stopping.set()

    def is_preempted(self) -> bool:
        return self._preempted.is_set()

    def _run(self) -> None:
        while not self._stopping.is_set() and not self._preempted.is_set():
            if not self._ask(POLL_S):
                self._stopping.wait(RETRY_S)
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
        if (answer or {}).get("preempt"):
            self._preempted.set()
        return True


class PreemptContext:
    """The preemption of a trial: `should_preempt()` is true once it must save a checkpoint and exit with status 0."""

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
        """Ask between batches. With `auto_ack`, the first true answer is acknowledged at once."""
        self._check_started()
        preempted = self._decide()
        if preempted and auto_ack and self._distributed.rank == 0:
            self.acknowledge_preemption_signal()
        return preempted

    def acknowledge_preemption_signal(self) -> None:
        """Promise to save and exit: a later exit with status 0 means "run me again from there"."""
        if self._ack_sent:
            return
        path = f"/api/v1/allocations/{self._allocation_id}/signals/ack_preemption"
        body = {"allocationId": self._allocation_id}
        if self._outbox is None:
            self._session.post(path, body)
        else:
            # Behind the reports. If the agent is away for longer, the program saves its checkpoint meanwhile.
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
            mine = self._watcher.is_preempted() if self._watcher else None
            return bool(self._distributed.broadcast(mine))
        if self._watcher is None:
            raise self._asked_by_worker()
        return self._watcher.is_preempted()

    def _asked_by_worker(self) -> RuntimeError:
        return RuntimeError(
            "with preempt_mode=ChiefOnly only the chief may ask, but .should_preempt() was called from non-chief "
            f"worker of rank={self._distributed.rank}"
        )


class DummyPreemptContext(PreemptContext):
    """The preemption of a script off-cluster, where nothing preempts it."""

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
            raise self._asked_by_worker()
        return False

    def acknowledge_preemption_signal(self) -> None:
        pass
