"""What must follow a change: rows written in its transaction, wakes sent after its commit."""

from datetime import datetime

from det_controlplane.db import queue, trials
from det_controlplane.db.engine import Tx
from det_controlplane.services.context import Context

MANY_TRIALS = 200


class Effects:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._dirty_pools: set[str] = set()
        self._topics: set[str] = set()
        self._outbox: list[tuple[str, dict[str, object]]] = []
        self._trials_created = 0

    def queue_changed(self, pool: str) -> None:
        """Somebody waits who did not, or something became free."""
        self._dirty_pools.add(pool)

    def wake(self, topic: str) -> None:
        self._topics.add(topic)

    def later(self, kind: str, **payload: object) -> None:
        """An effect that happens after the commit, at least once, by the tick."""
        self._outbox.append((kind, payload))

    def allocation_changed(self, allocation_id: str) -> None:
        self._topics.add(f"allocation:{allocation_id}")

    def operation_changed(self, trial_id: int) -> None:
        self._topics.add(f"operation:{trial_id}")

    def trial_ended(self, task_id: str) -> None:
        self._topics.add(f"logs:{task_id}")

    def trials_created(self, count: int) -> None:
        self._trials_created += count

    def experiment_ended(self, experiment_id: int) -> None:
        self.later("checkpoint_gc", experiment_id=experiment_id)

    def write(self, tx: Tx, now: datetime) -> None:
        """Last in the transaction: the pool's row is shared by everybody."""
        for kind, payload in self._outbox:
            queue.add_to_outbox(tx, kind, payload, now)
        for pool in sorted(self._dirty_pools):
            queue.mark_dirty(tx, pool)

    def announce(self) -> None:
        """After the commit."""
        if self._trials_created >= MANY_TRIALS:
            trials.tell_planner(self._ctx.db)
        if self._dirty_pools or self._outbox:
            self._ctx.waker.wake("schedule")
        for topic in self._topics:
            self._ctx.waker.wake(topic)
