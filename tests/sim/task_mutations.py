"""Bugs put into commands, notebooks and trees of generic tasks, which worlds with tasks must notice."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from det_controlplane.core.lifecycle.allocation import ExitKind
from det_controlplane.db.tasks import tasks as rows
from det_controlplane.services.tasks import generic, lifecycle

from tests.sim.mutations import Mutation, nothing, without


def _kill_the_named_task_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(generic, "_tree", lambda ctx, user, task_id: iter([task_id]))


def _start_every_lost_task_again(patch: pytest.MonkeyPatch) -> None:
    def again(kind: Any, state: Any, exit: Any, failures: int, *, was_asked: bool = False) -> bool:
        return exit.kind is ExitKind.INFRASTRUCTURE and failures < 5

    patch.setattr(lifecycle, "runs_again", again)


def _forget_that_tasks_have_ended(patch: pytest.MonkeyPatch) -> None:
    nothing(rows, "end")(patch)


def _launch_again_when_asked_again(patch: pytest.MonkeyPatch) -> None:
    """Drop the key that repetitions of a request have in common."""
    insert = rows.insert_task

    def unkeyed(tx: Any, new: Any, now: Any) -> None:
        object.__setattr__(new, "idempotency_key", None)
        insert(tx, new, now)

    patch.setattr(rows, "insert_task", unkeyed)


def _mutation(
    name: str, breaks: Callable[[pytest.MonkeyPatch], None], seeds: Sequence[int] = range(1, 41)
) -> Mutation:
    return Mutation(name, breaks, seeds, with_tasks=True)


TASK_MUTATIONS = (
    _mutation(
        "notebooks that work are ended as idle",
        without(rows, "_IDLE", "<= :now", "<= cast(:now AS timestamptz) + interval '30 seconds'"),
    ),
    _mutation("a kill does not reach what is below", _kill_the_named_task_only, range(9, 49)),
    _mutation("killed tasks get children", nothing(generic, "_require_open")),
    _mutation("commands that had run are started again", _start_every_lost_task_again),
    _mutation("the end of a task is not stored", _forget_that_tasks_have_ended),
    _mutation("a kill does not stop programs", nothing(generic, "_stop")),
    _mutation("a launch that is sent again launches again", _launch_again_when_asked_again),
)
