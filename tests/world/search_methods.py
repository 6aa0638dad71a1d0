"""Programs that decide searches from outside (`searcher.name: custom`): they read events, answer, crash and
continue.

Like the bundled runner, a program stores its answers before it posts them. After a crash it may post an answer
again, and it never loses one. The received events must be consistent. It waits for every requested operation, so a
lost event or operation leaves an experiment that does not end.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from tests.world.hosts import USER_TOKEN
from tests.world.script import Call, Play, Script, Sleep
from tests.world.stage import Stage
from tests.world.violation import Violation

Operation = dict[str, Any]
_SHORT, _LONG = 32, 64
_LONGEST_PAUSE_S = 8.0
_LONGEST_ABSENCE_S = 60.0
_ENDED = ("STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR")


@dataclass(slots=True)
class Followed:
    """A trial as the method knows it."""

    asked: int | None = None  # to train so far
    heard: bool = False  # that it was created
    reached: int = 0  # the length of the newest validation
    closed: bool = False


@dataclass(slots=True)
class Memory:
    """The state of a search method that survives a crash."""

    last_event: int = 0
    trials: dict[str, Followed] = field(default_factory=dict)
    answers: list[tuple[int, list[Operation]]] = field(default_factory=list)  # not posted yet
    ended: bool = False


class FakeSearchMethod:
    """Trains a few trials for a short time, and some of them for longer."""

    def __init__(self, world: Stage, experiment_id: int) -> None:
        self._world = world
        self._id = experiment_id
        self._rng: Random = world.stream(f"search method {experiment_id}")
        self._memory = Memory()
        self._saved = Memory()

    def begin(self) -> None:
        Play(self._world.timeline, self._world.network.send, self._search(), _nothing).start()

    def _search(self) -> Script:
        while not self._memory.ended:
            for event, operations in self._memory.answers:
                if not (yield from self._post(event, operations)):
                    return None
                yield from self._crash()
            self._memory.answers = []
            reply = yield self._call("GET", "searcher_events?timeoutSeconds=0")
            if reply.ok:
                self._hear(reply.body["searcherEvents"])
            elif self._is_over(reply.status, "events"):
                return None
            yield from self._crash()
            yield Sleep(self._rng.uniform(0.2, _LONGEST_PAUSE_S))
        return None

    def _post(self, event: int, operations: list[Operation]) -> Script:
        """Post until an answer arrives; repeats change nothing. Return False when the experiment accepts no more
        operations."""
        body = {"searcherOperations": operations, "triggeredByEvent": {"id": str(event)}}
        while True:
            reply = yield self._call("POST", "searcher_operations", body)
            if reply.ok:
                return 1
            if self._is_over(reply.status, str(operations)):
                return 0
            yield Sleep(self._rng.uniform(1, 4))

    def _is_over(self, status: int, request_id: str) -> bool:
        if 400 <= status < 500 and self._id not in self._world.ledger.deleting:
            raise Violation(
                f"experiment {self._id} answers its search method {status}: {request_id}"
            )
        return status == 404

    def _crash(self) -> Script:
        """Crash now and then, and continue later from the stored state."""
        if self._rng.random() < self._world.rates.program_trouble * 2:
            self._memory = deepcopy(self._saved)
            yield Sleep(self._rng.uniform(1, _LONGEST_ABSENCE_S))
        return None

    def _hear(self, events: list[Mapping[str, Any]]) -> None:
        memory = self._memory
        new = [event for event in events if int(event["id"]) > memory.last_event]
        for event in new:
            memory.last_event = id = int(event["id"])
            ((kind, event_body),) = ((k, v) for k, v in event.items() if k != "id")
            operations = _REACTIONS[kind](self, event_body)
            if not memory.ended:
                memory.answers.append((id, operations))
        if any("trialProgress" not in event for event in new):  # else it is not worth it
            self._saved = deepcopy(memory)

    def _begun(self, event: Mapping[str, Any]) -> list[Operation]:
        return [o for _ in range(self._rng.randint(1, 3)) for o in self._new_trial()]

    def _new_trial(self) -> list[Operation]:
        request_id = str(UUID(int=self._rng.getrandbits(128), version=4))
        trial = self._memory.trials[request_id] = Followed()
        hparams = f'{{"lr": {10 ** self._rng.uniform(-4, -1)}}}'
        create = {"createTrial": {"requestId": request_id, "hyperparams": hparams}}
        if self._rng.random() < 0.3:
            return [create]  # and asked to train when it is there
        operations = [create, self._train(request_id, trial, _SHORT)]
        if self._rng.random() < 0.3:
            operations.append(_close(request_id))
        return operations

    def _created(self, event: Mapping[str, Any]) -> list[Operation]:
        request_id, trial = self._followed("trialCreated", event)
        self._must(not trial.heard, f"trial {request_id} was created twice")
        trial.heard = True
        return [] if trial.asked else [self._train(request_id, trial, _SHORT)]

    def _validated(self, event: Mapping[str, Any]) -> list[Operation]:
        request_id, trial = self._followed("validationCompleted", event)
        length = int(event["validateAfterLength"])
        self._must(trial.asked == length, f"trial {request_id} was not asked to train {length}")
        self._must(trial.reached < length, f"trial {request_id} trained {length} twice")
        validations = self._world.ledger.validations
        self._must(
            (length, event["metric"]) in validations, f"no program validated as told: {event}"
        )
        trial.reached = length
        if length == _SHORT and self._rng.random() < 0.5:
            return [self._train(request_id, trial, _LONG)]
        return [_close(request_id)]

    def _left(self, event: Mapping[str, Any]) -> list[Operation]:
        self._followed("trialExitedEarly", event)
        return self._new_trial() if self._rng.random() < 0.2 else []

    def _closed(self, event: Mapping[str, Any]) -> list[Operation]:
        request_id, trial = self._followed("trialClosed", event)
        self._must(not trial.closed, f"trial {request_id} was closed twice")
        trial.closed = True
        if not all(t.closed for t in self._memory.trials.values()):
            return []
        return [{"shutDown": {"cancel": self._rng.random() < 0.2, "failure": False}}]

    def _progressed(self, event: Mapping[str, Any]) -> list[Operation]:
        self._followed("trialProgress", event)
        return []

    def _inactive(self, event: Mapping[str, Any]) -> list[Operation]:
        self._memory.ended = event["experimentState"] in _ENDED
        return []

    def _train(self, request_id: str, trial: Followed, length: int) -> Operation:
        trial.asked = length
        body = {"requestId": request_id, "length": str(length)}
        return {"trialOperation": {"validateAfter": body}}

    def _followed(self, kind: str, event: Mapping[str, Any]) -> tuple[str, Followed]:
        request_id = event["requestId"]
        trial = self._memory.trials.get(request_id)
        self._must(trial is not None, f"{kind} of {request_id}, which was never asked for")
        assert trial is not None
        if kind != "trialCreated":
            self._must(trial.heard, f"{kind} of {request_id} before it was created")
            self._must(not trial.closed or kind == "trialClosed", f"{kind} of a closed trial")
        return request_id, trial

    def _must(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise Violation(f"the search method of experiment {self._id} heard: {otherwise}")

    def _call(self, method: str, sentence: str, body: Mapping[str, Any] | None = None) -> Call:
        return Call(method, f"/api/v1/experiments/{self._id}/{sentence}", body, USER_TOKEN)


Reaction = Callable[[FakeSearchMethod, Mapping[str, Any]], list[Operation]]

_REACTIONS: dict[str, Reaction] = {
    "initialOperations": FakeSearchMethod._begun,
    "trialCreated": FakeSearchMethod._created,
    "validationCompleted": FakeSearchMethod._validated,
    "trialExitedEarly": FakeSearchMethod._left,
    "trialClosed": FakeSearchMethod._closed,
    "trialProgress": FakeSearchMethod._progressed,
    "experimentInactive": FakeSearchMethod._inactive,
}


def _close(request_id: str) -> Operation:
    return {"closeTrial": {"requestId": request_id}}


def _nothing(code: int | None) -> None:
    return None
