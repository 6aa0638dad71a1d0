"""`adaptive_asha`: independent brackets with different numbers of rungs (docs/concepts/search.md#rungs)."""

from collections.abc import Mapping, Sequence
from typing import Any

from .actions import Action, Create
from .history import History
from .method import Method


class AdaptiveAsha(Method):
    """Pass every event to the bracket that created the trial."""

    def __init__(self, brackets: Sequence[Method]) -> None:
        self._brackets = brackets
        self._bracket_of: dict[str, int] = {}

    def started(self) -> Sequence[Action]:
        return [
            action
            for index, bracket in enumerate(self._brackets)
            for action in self._own(index, bracket.started())
        ]

    def validated(self, request_id: str, metrics: Mapping[str, Any]) -> Sequence[Action]:
        index = self._bracket_of[request_id]
        actions = self._brackets[index].validated(request_id, metrics)
        return self._own(index, actions) if actions else actions

    def completed(self, request_id: str, length: float, metric: Any) -> Sequence[Action]:
        index = self._bracket_of[request_id]
        return self._own(index, self._brackets[index].completed(request_id, length, metric))

    def invalid(self, request_id: str) -> Sequence[Action]:
        index = self._bracket_of[request_id]
        return self._own(index, self._brackets[index].invalid(request_id))

    def exited_early(self, request_id: str, reason: str) -> Sequence[Action]:
        index = self._bracket_of[request_id]
        return self._own(index, self._brackets[index].exited_early(request_id, reason))

    def finished(self, request_id: str) -> Sequence[Action]:
        index = self._bracket_of[request_id]
        return self._own(index, self._brackets[index].finished(request_id))

    def exited(self, request_id: str) -> Sequence[Action]:
        index = self._bracket_of.pop(request_id)
        return self._own(index, self._brackets[index].exited(request_id))

    def progress(self) -> float:
        return sum(bracket.progress() or 0.0 for bracket in self._brackets) / len(self._brackets)

    def watched(self) -> Sequence[History]:
        return [history for bracket in self._brackets for history in bracket.watched()]

    def snapshot(self) -> dict[str, Any]:
        return {
            "bracket_of": dict(self._bracket_of),
            "brackets": [bracket.snapshot() for bracket in self._brackets],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._bracket_of = dict(state["bracket_of"])
        for bracket, bracket_state in zip(self._brackets, state["brackets"], strict=True):
            bracket.restore(bracket_state)

    def _own(self, index: int, actions: Sequence[Action]) -> Sequence[Action]:
        for action in actions:
            if type(action) is Create:
                self._bracket_of[action.request_id] = index
        return actions
