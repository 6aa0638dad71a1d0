"""Programs of tasks other than trials: commands and generic tasks that work for a while, and used notebooks."""

import json
from random import Random

from tests.world.script import Call, Script, Sleep
from tests.world.stage import RunningContainer

_CRASH = 1


class WorkingProgram:
    """A command or a generic task: it works, crashes, hangs, and leaves when it is asked to."""

    def __init__(self, container: RunningContainer) -> None:
        self._container = container
        self._world = container.agent.world
        self._rng: Random = container.rng
        self._token: str = container.spec["session_token"]
        self._deaf = self._rng.random() < self._world.rates.program_trouble * 2

    def script(self) -> Script:
        for _ in range(self._rng.randint(1, 12)):
            if self._rng.random() < self._world.rates.program_trouble:
                return (yield from self._misbehave())
            if self._container.preempted and not self._deaf:
                return (yield from self._leave())
            yield Sleep(self._rng.uniform(1, 6))
        return 0

    def _misbehave(self) -> Script:
        if self._rng.random() < 0.6:
            return _CRASH
        while not self._world.calm:
            yield Sleep(10.0)
        return 0

    def _leave(self) -> Script:
        path = f"/api/v1/allocations/{self._container.allocation_id}/signals/ack_preemption"
        yield Call("POST", path, {}, self._token)
        return 0


class NotebookProgram:
    """A notebook that serves until it is ended, and reports activity."""

    def __init__(self, container: RunningContainer) -> None:
        self._container = container
        self._world = container.agent.world
        self._rng: Random = container.rng
        self._task_id: str = container.spec["task_id"]
        self._token: str = container.spec["session_token"]
        self._works = self._rng.randint(0, 8)

    def script(self) -> Script:
        yield Sleep(self._rng.uniform(0.5, 5))
        ready = f"/api/v1/allocations/{self._container.allocation_id}/ready"
        yield Call("POST", ready, {}, self._token)
        while True:
            yield Sleep(self._rng.uniform(2, 12))
            if self._rng.random() < self._world.rates.program_trouble / 2:
                return _CRASH
            works = self._works > 0 and not self._world.calm
            self._works -= works
            yield from self._report(works=works)

    def _report(self, *, works: bool) -> Script:
        sent_at = self._world.timeline.seconds
        path = f"/api/v1/notebooks/{self._task_id}/report_idle"
        reply = yield Call("PUT", path, {"idle": not works}, self._token)
        if works and reply.ok:
            self._world.ledger.tasks.worked_at[self._task_id] = sent_at
        return None


def of_task(container: RunningContainer) -> WorkingProgram | NotebookProgram:
    kind = container.spec["task_type"]
    if kind == "NOTEBOOK":
        return NotebookProgram(container)
    if kind in ("COMMAND", "GENERIC"):
        return WorkingProgram(container)
    raise AssertionError(f"no program of this world is a {json.dumps(kind)}")
