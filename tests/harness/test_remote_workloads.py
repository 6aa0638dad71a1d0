"""A trial follows the workloads that the control plane hands out, and its own plan where they are out of date."""

from typing import Any

import pytest
from determined._remote_workloads import RemoteSource
from determined.common.http import MasterUnreachableError, NotFoundError
from determined.workloads import Every, Kind, LocalSource, Plan, Progress, Workload

PLAN = Plan(max_batches=8, reporting=Every(4))


class FakeSession:
    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def get(self, path: str, params: dict[str, Any]) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"workload": answer}


def told(kind: Kind, batches: int = 0) -> dict[str, Any]:
    return {"kind": kind.value, "numBatches": batches, "totalBatchesProcessed": 0}


def source(*answers: Any) -> RemoteSource:
    return RemoteSource(FakeSession(*answers), 1, LocalSource(PLAN))


def test_the_control_plane_says_what_comes_next() -> None:
    assert source(told(Kind.VALIDATE)).next(Progress(batches=4)).kind is Kind.VALIDATE


@pytest.mark.parametrize(
    ("kind", "progress", "planned"),
    [
        (Kind.CHECKPOINT, Progress(8, validated_at=8, checkpointed_at=8), Kind.TERMINATE),
        (Kind.VALIDATE, Progress(8, validated_at=8, improved=True), Kind.CHECKPOINT),
        (Kind.CHECKPOINT, Progress(4, checkpointed_at=4), Kind.RUN_STEP),
    ],
)
def test_what_a_trial_has_just_done_is_not_done_again_though_its_report_is_still_under_way(
    kind: Kind, progress: Progress, planned: Kind
) -> None:
    assert source(told(kind)).next(progress).kind is planned


def test_a_trial_goes_on_by_its_own_plan_while_nobody_answers() -> None:
    remote = source(MasterUnreachableError("down"), told(Kind.VALIDATE))
    assert remote.next(Progress()) == Workload(Kind.RUN_STEP, 4, 0)
    assert remote.next(Progress()).kind is Kind.VALIDATE


def test_a_control_plane_without_workloads_is_asked_once() -> None:
    remote = source(NotFoundError(404, "no such route"))
    assert remote.next(Progress()).kind is Kind.RUN_STEP
    assert remote.next(Progress(batches=4)).kind is Kind.RUN_STEP


def test_a_trial_that_must_stop_saves_without_asking() -> None:
    assert source().next(Progress(batches=3, stopping=True)).kind is Kind.CHECKPOINT
