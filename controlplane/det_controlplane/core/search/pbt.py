"""`pbt`: a population trains in rounds. After each round, modified copies of the best replace the worst.

See docs/concepts/search.md#pbt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .actions import Action, Create, Park, Stop, TrainTo
from .explore import Explorer
from .method import NOTHING, Method, as_loss, read_loss, read_time
from .rung import pack, unpack
from .sampling import Sampler


@dataclass(frozen=True, slots=True)
class PbtConfig:
    metric: str
    smaller_is_better: bool
    time_metric: str
    population_size: int
    num_rounds: int
    length_per_round: int
    truncate_fraction: float


@dataclass(slots=True)
class Member:
    hparams: Mapping[str, Any]
    born: int  # the first round of the trial; its length counts from there
    parent: str | None
    loss: float | None = None  # of this round, or None while it trains


class PopulationTraining(Method):
    def __init__(self, sampler: Sampler, explorer: Explorer, config: PbtConfig) -> None:
        self._sampler = sampler
        self._explorer = explorer
        self._config = config
        self._sign = 1.0 if config.smaller_is_better else -1.0
        self._round = 0
        self._members: dict[str, Member] = {}
        self._training = 0

    def started(self) -> Sequence[Action]:
        return [a for _ in range(self._config.population_size) for a in self._create(None)]

    def validated(self, request_id: str, metrics: Mapping[str, Any]) -> Sequence[Action]:
        config = self._config
        if self._members[request_id].loss is not None or config.time_metric not in metrics:
            return NOTHING
        time = read_time(metrics, config.time_metric, request_id)
        loss = read_loss(metrics, config.metric, self._sign, request_id)
        return self._report(request_id, time, loss)

    def completed(self, request_id: str, length: float, metric: Any) -> Sequence[Action]:
        if self._members[request_id].loss is not None:
            return NOTHING
        loss = as_loss(metric, self._config.metric, self._sign, request_id)
        return self._report(request_id, length, loss)

    def invalid(self, request_id: str) -> Sequence[Action]:
        parent = self._members[request_id].parent
        self._remove(request_id)
        if parent is not None and parent not in self._members:
            parent = None
        return [Stop(request_id), *self._create(parent)]

    def exited_early(self, request_id: str, reason: str) -> Sequence[Action]:
        self._remove(request_id)
        return self._end_round() if self._training == 0 else NOTHING

    def finished(self, request_id: str) -> Sequence[Action]:
        return self.exited_early(request_id, "finished")

    def progress(self) -> float:
        config = self._config
        reported = sum(member.loss is not None for member in self._members.values())
        rounds = self._round + reported / max(len(self._members), 1)
        return min(rounds / config.num_rounds, 1.0)

    def snapshot(self) -> dict[str, Any]:
        return {
            "round": self._round,
            "members": [
                {
                    "request_id": request_id,
                    "hparams": member.hparams,
                    "born": member.born,
                    "parent": member.parent,
                    "loss": None if member.loss is None else pack([member.loss]),
                }
                for request_id, member in self._members.items()
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._round = state["round"]
        self._members = {
            member_state["request_id"]: Member(
                member_state["hparams"],
                member_state["born"],
                member_state["parent"],
                None if member_state["loss"] is None else unpack(member_state["loss"])[0],
            )
            for member_state in state["members"]
        }
        self._training = sum(member.loss is None for member in self._members.values())

    def _report(self, request_id: str, time: float, loss: float) -> Sequence[Action]:
        member = self._members[request_id]
        if time < self._target(member):
            return NOTHING
        member.loss = loss
        self._training -= 1
        if self._training == 0:
            return [Park(request_id), *self._end_round()]
        return [Park(request_id)]

    def _end_round(self) -> Sequence[Action]:
        """End a round after every trial has reported. The last one ends the search; others replace the worst."""
        self._round += 1
        best_first = sorted(self._members, key=self._loss)
        if self._round >= self._config.num_rounds or not best_first:
            self._members.clear()
            return [Stop(request_id) for request_id in best_first]
        size = self._config.population_size
        # Failed trials of this round already count among the worst, so fewer others are replaced.
        survivors = best_first[: max(size - int(self._config.truncate_fraction * size), 1)]
        replaced = best_first[len(survivors) :]
        actions: list[Action] = [Stop(request_id, early=True) for request_id in replaced]
        for request_id in replaced:
            del self._members[request_id]
        actions.extend(self._continue(request_id) for request_id in survivors)
        for place in range(size - len(survivors)):
            actions.extend(self._create(survivors[place % len(survivors)]))
        return actions

    def _loss(self, request_id: str) -> float:
        loss = self._members[request_id].loss
        assert loss is not None
        return loss

    def _continue(self, request_id: str) -> Action:
        member = self._members[request_id]
        member.loss = None
        self._training += 1
        return TrainTo(request_id, self._target(member))

    def _create(self, parent: str | None) -> list[Action]:
        hparams: dict[str, Any] | None = None
        if parent is not None:
            hparams = self._explorer.explore(self._members[parent].hparams)
        create: Create = self._sampler.create(hparams, parent)
        member = Member(create.hparams, self._round, parent)
        self._members[create.request_id] = member
        self._training += 1
        return [create, TrainTo(create.request_id, self._target(member))]

    def _remove(self, request_id: str) -> None:
        self._training -= self._members.pop(request_id).loss is None

    def _target(self, member: Member) -> int:
        return (self._round - member.born + 1) * self._config.length_per_round
