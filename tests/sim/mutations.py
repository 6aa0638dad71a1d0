"""Deliberate bugs: each removes one guard of the product, and some world must detect it.

The name states the bug, `breaks` patches it in, and `seeds` are worlds of which at least one fails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from det_controlplane.core.lifecycle import allocation as allocation_states
from det_controlplane.core.lifecycle.allocation import Failure
from det_controlplane.core.search import RemoteSearch
from det_controlplane.db.experiments import experiments
from det_controlplane.db.scheduling import allocations, pool_marks, slots, wait_reasons
from det_controlplane.db.scheduling import schedule as schedule_rows
from det_controlplane.services.agents import containers
from det_controlplane.services.experiments import live
from det_controlplane.services.scheduling import schedule_pool
from det_controlplane.services.search.journal import Journal
from det_controlplane.services.trials import metric_reports
from sqlalchemy import text

Breaks = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutation:
    name: str
    breaks: Breaks
    seeds: Sequence[int] = range(1, 41)
    rented: bool = False  # worlds of rented machines are played
    with_tasks: bool = False  # worlds with commands, notebooks and trees of tasks are played
    with_gangs: bool = False  # worlds of trials over several agents are played
    is_elastic: bool = False  # worlds of elastic gangs are played


def without(module: Any, name: str, guard: str, instead: str = "") -> Breaks:
    """Return a statement without one of its guards."""

    def breaks(patch: pytest.MonkeyPatch) -> None:
        statement = getattr(module, name).text
        assert guard in statement, f"{name} has no {guard!r} any more: choose another mutation"
        patch.setattr(module, name, text(statement.replace(guard, instead)))

    return breaks


def nothing(module: Any, name: str, result: Any = None) -> Breaks:
    return lambda patch: patch.setattr(module, name, lambda *args, **kwargs: result)


def count_a_lost_agent_as_a_failure(patch: pytest.MonkeyPatch) -> None:
    counted = (None, Failure.CONTAINER_FAILED, Failure.AGENT_LOST)
    patch.setattr(allocation_states, "_is_infrastructure", lambda e: e.failure not in counted)
    patch.setattr(
        allocation_states, "_is_failure", lambda e: e.failure is not None or bool(e.exit_code)
    )


def _trust_what_was_remembered(patch: pytest.MonkeyPatch) -> None:
    """Use the remembered search as if no other process could have written events meanwhile."""
    load = Journal._load

    def trusting(self: Journal) -> Any:
        cached = self._ctx.memory.pop_search(self._experiment.id)
        return load(self) if cached is None else cached.search

    patch.setattr(Journal, "_load", trusting)


def _place_half_a_gang(patch: pytest.MonkeyPatch) -> None:
    start = schedule_pool._start

    def halved(ctx: Any, change: Any, starts: Any) -> None:
        cut = [s._replace(placements=s.placements[:1], slot_ids=s.slot_ids[:1]) for s in starts]
        start(ctx, change, cut)

    patch.setattr(schedule_pool, "_start", halved)


def _hand_out_occupied_slots(patch: pytest.MonkeyPatch) -> None:
    without(slots, "_HOLD", "AND s.container_id IS NULL")(patch)
    without(schedule_rows, "_AGENTS", "AND s.container_id IS NULL), '{}'", "), '{}'")(patch)


def _forget_that_a_trial_exited(patch: pytest.MonkeyPatch) -> None:
    end = live.LiveExperiment._end_trial

    def forgetful(self: Any, trial: Any, state: Any) -> None:
        end(self, trial, state)
        if self._events:
            self._events.pop()

    patch.setattr(live.LiveExperiment, "_end_trial", forgetful)


def _answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Metrics are taken, and a failure to write them goes unnoticed."""
    take = metric_reports.take

    def careless(ctx: Any, arguments: Any) -> None:
        try:
            take(ctx, arguments)
        except Exception:
            return

    patch.setattr(metric_reports, "take", careless)


def _carry_out_repeated_answers(patch: pytest.MonkeyPatch) -> None:
    operated = RemoteSearch.operated

    def forgetful(self: RemoteSearch, operations: Any, triggered_by: int | None) -> Any:
        self._answered = -1
        return operated(self, operations, triggered_by)

    patch.setattr(RemoteSearch, "operated", forgetful)


def _drop_events_that_nobody_has_answered(patch: pytest.MonkeyPatch) -> None:
    operated = RemoteSearch.operated

    def careless(self: RemoteSearch, operations: Any, triggered_by: int | None) -> Any:
        self._queue.clear()
        return operated(self, operations, triggered_by)

    patch.setattr(RemoteSearch, "operated", careless)


MUTATIONS = (
    Mutation(
        "killing twice forgets that the kill came first",
        without(allocations, "_KILL", "AND NOT a.killed"),
        range(71, 151),
    ),
    Mutation(
        "experiments are read without their row lock",
        without(experiments, "_LOCK", "FOR NO KEY UPDATE OF e, s"),
        range(1, 81),
    ),
    # Seed 4 is the first world in which it matters.
    Mutation("a lost agent counts as a failure", count_a_lost_agent_as_a_failure, range(4, 41)),
    Mutation("slots are not released", lambda p: [
        nothing(slots, "release")(p), nothing(slots, "release_container")(p), None][-1]),
    Mutation(
        "acknowledged preemptions are forgotten",
        nothing(allocations, "acknowledge_preemption"),
    ),
    Mutation("a process trusts the search it remembers", _trust_what_was_remembered),
    Mutation("occupied slots are handed out", _hand_out_occupied_slots),
    Mutation("half a gang is placed", _place_half_a_gang, range(31, 111)),
    Mutation("the searcher is not told of exits", _forget_that_a_trial_exited),
    Mutation("tokens outlive their allocations", without(
        allocations, "_EXPIRE_TOKENS", "expires_at = :at", "expires_at = expires_at")),
    Mutation("nobody says why something waits", nothing(wait_reasons, "record")),
    Mutation("preemptions are never enforced", nothing(allocations, "kills_due", ())),
    Mutation("containers of lost agents live on", nothing(containers, "end_with_agent")),
    Mutation("a report that failed is acknowledged", _answer_before_the_commit),
    Mutation("the queue is never looked at again", nothing(pool_marks, "mark")),
    Mutation(
        "answers of a search method are carried out again",
        _carry_out_repeated_answers,
        range(39, 119),
    ),
    Mutation("a search method loses events", _drop_events_that_nobody_has_answered),
)  # fmt: skip
