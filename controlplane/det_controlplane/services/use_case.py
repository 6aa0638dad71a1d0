"""The frame of a use case that changes something: one transaction, rows that travel with its commit, wakes after it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from det_controlplane.core.webhooks import TriggerType
from det_controlplane.db.cluster import outbox, webhooks
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import pool_marks
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.db.trials import trials
from det_controlplane.services.context import Context

MANY_TRIALS = 200
# The waker's name for messages of webhooks that are due.
WEBHOOKS_TOPIC = "webhooks"


class Change:
    """An open transaction with its time, and the marks, effects and wakes that follow from it."""

    def __init__(self, ctx: Context, tx: Tx) -> None:
        self.tx = tx
        self.now = ctx.now()
        self._dirty_pools: set[str] = set()
        self._topics: set[str] = set()
        self._outbox: list[tuple[EffectKind, dict[str, object]]] = []
        self._ended: list[int] = []
        self._committed: list[Callable[[], None]] = []
        self._trials_created = 0

    def queue_changed(self, pool: str) -> None:
        """Mark the pool for scheduling, as its queue or its free slots have changed."""
        self._dirty_pools.add(pool)

    def wake(self, topic: str) -> None:
        self._topics.add(topic)

    def later(self, kind: EffectKind, **payload: object) -> None:
        """Promise an effect, which the tick carries out after the commit, at least once."""
        self._outbox.append((kind, payload))

    def allocation_changed(self, allocation_id: str) -> None:
        self.wake(f"allocation:{allocation_id}")

    def operation_changed(self, trial_id: int) -> None:
        self.wake(f"operation:{trial_id}")

    def trial_ended(self, task_id: str) -> None:
        self.wake(f"logs:{task_id}")

    def trials_created(self, count: int) -> None:
        self._trials_created += count

    def experiment_ended(self, experiment_id: int) -> None:
        self.send_final_state(experiment_id)
        self.later(EffectKind.CHECKPOINT_GC, experiment_id=experiment_id)

    def send_final_state(self, experiment_id: int) -> None:
        """Send the experiment's final state to webhooks."""
        self._ended.append(experiment_id)

    def when_committed(self, act: Callable[[], None]) -> None:
        """Call `act` after the commit, before anything is woken."""
        self._committed.append(act)

    def _write(self) -> None:
        for experiment_id in self._ended:
            if webhooks.queue_messages(
                self.tx, TriggerType.EXPERIMENT_STATE_CHANGE, experiment_id, self.now
            ):
                self.wake(WEBHOOKS_TOPIC)
        for kind, payload in self._outbox:
            outbox.add(self.tx, kind, payload, self.now)
        # Last, and in the order of everybody: the rows of pools are shared.
        for pool in sorted(self._dirty_pools):
            pool_marks.mark(self.tx, pool)

    def _announce(self, ctx: Context) -> None:
        for act in self._committed:
            act()
        if self._trials_created >= MANY_TRIALS:
            trials.analyze_tables(ctx.db)
        if self._dirty_pools or self._outbox:
            ctx.waker.wake("schedule")
        for topic in self._topics:
            ctx.waker.wake(topic)


@contextmanager
def change(ctx: Context) -> Iterator[Change]:
    """Open a transaction. At the end of the block, write the requested marks and effects, commit, and wake waiters."""
    with ctx.db.begin() as tx:
        opened = Change(ctx, tx)
        yield opened
        opened._write()
    opened._announce(ctx)
