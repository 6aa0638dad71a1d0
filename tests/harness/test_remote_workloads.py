"""A trial follows the control plane's workloads, and its own plan if they are outdated."""

from typing import Any

import pytest
from determined.common.http import MasterUnreachableError, NotFoundError
from determined.workloads import Every, Kind, LocalSource, Plan, Progress, RemoteSource, Workload

PLAN = Plan(max_batches=8, reporting=Every(4))


class FakeSession:
    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def get(self, path: str, params: dict[str, Any]) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"workload": answer}


def workload(kind: Kind, batches: int = 0) -> dict[str, Any]:
    return {"kind": kind.value, "numBatches": batches, "totalBatchesProcessed": 0}


def source(*answers: Any) -> RemoteSource:
    return RemoteSource(FakeSession(*answers), 1, LocalSource(PLAN))


def test_follows_workload_of_the_control_plane() -> None:
    assert source(workload(Kind.VALIDATE)).next(Progress(batches=4)).kind is Kind.VALIDATE


@pytest.mark.parametrize(
    ("kind", "progress", "planned"),
    [
        (Kind.CHECKPOINT, Progress(8, validated_at=8, checkpointed_at=8), Kind.TERMINATE),
        (Kind.VALIDATE, Progress(8, validated_at=8, improved=True), Kind.CHECKPOINT),
        (Kind.CHECKPOINT, Progress(4, checkpointed_at=4), Kind.RUN_STEP),
    ],
)
def test_does_not_repeat_workload_with_a_pending_report(
    kind: Kind, progress: Progress, planned: Kind
) -> None:
    assert source(workload(kind)).next(progress).kind is planned


def test_follows_own_plan_during_an_outage() -> None:
    remote = source(MasterUnreachableError("down"), workload(Kind.VALIDATE))
    assert remote.next(Progress()) == Workload(Kind.RUN_STEP, 4, 0)
    assert remote.next(Progress()).kind is Kind.VALIDATE


def test_control_plane_without_workloads_is_asked_once() -> None:
    remote = source(NotFoundError(404, "no such route"))
    assert remote.next(Progress()).kind is Kind.RUN_STEP
    assert remote.next(Progress(batches=4)).kind is Kind.RUN_STEP


def test_stopping_trial_saves_without_a_request() -> None:
    assert source().next(Progress(batches=3, stopping=True)).kind is Kind.CHECKPOINT
