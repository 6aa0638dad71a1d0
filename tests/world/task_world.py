"""The simulated world with tasks: commands, notebooks that idle, and trees of generic tasks beside experiments."""

from det_controlplane.adapters.aes_cipher import AesCipher
from sqlalchemy import text

from tests.world import task_rules
from tests.world.faults import Rates
from tests.world.hosts import Hosts
from tests.world.invariants import all_rules, none_broken
from tests.world.task_people import TaskUser
from tests.world.violation import Violation
from tests.world.world import World

_TASK_RULES = all_rules(task_rules.TASK_RULES)
_BELOW_KILLED = text(task_rules.BELOW_KILLED)
_ROUNDING_S = 0.001  # of the database's times
_IDLE_KILLED = text(task_rules.IDLE_KILLED)


class TaskWorld(World):
    """`TaskWorld(seed, hosts).run()` plays one history."""

    def __init__(
        self, seed: int, hosts: Hosts, *, rates: Rates | None = None, chaos_s: float = 240.0
    ) -> None:
        super().__init__(seed, hosts, rates=rates, chaos_s=chaos_s)
        self._ended_idle: set[str] = set()

    def _populate(self) -> None:
        super()._populate()
        for process in self._hosts.processes:
            process.ctx.host.carries_traffic = True
            process.ctx.host.public_url = "http://cluster.example"
            process.ctx.cipher = AesCipher(["a key of a simulated world"])
        self.actors += [TaskUser(self, n) for n in range(self.stream("tasks").randint(1, 2))]

    def _check_step(self) -> None:
        super()._check_step()
        with self._hosts.observed() as tx:
            none_broken(tx, _TASK_RULES)
            for alive in tx.execute(_BELOW_KILLED, {"killed": sorted(self.ledger.tasks.killed)}):
                raise Violation(f"below a task that was killed, task {alive.what}")
            for row in tx.execute(_IDLE_KILLED):
                if row.id not in self._ended_idle:
                    self._ended_idle.add(row.id)
                    self._check_idle(row.task_id, row.idle_timeout_s)

    def _check_idle(self, task_id: str, timeout_s: float) -> None:
        worked_at = self.ledger.tasks.worked_at.get(task_id)
        if worked_at is not None and self.timeline.seconds < worked_at + timeout_s - _ROUNDING_S:
            raise Violation(
                f"notebook {task_id} was ended as idle at {self.timeline.seconds:.1f} s;"
                f" it worked at {worked_at:.1f} s, and may idle for {timeout_s:.0f} s"
            )
