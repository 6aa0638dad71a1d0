"""Which checkpoints an ended experiment keeps."""

from dataclasses import replace

import pytest
from det_controlplane.core.checkpoints.gc import Checkpoint, Policy, to_delete

FOUR = [Checkpoint(str(n), 1, n, float(n)) for n in range(1, 5)]  # the metric grows


@pytest.mark.parametrize(
    ("policy", "deleted"),
    [
        ((0, 0, 0), "1234"),
        ((0, 0, 1), "123"),
        ((0, 1, 0), "234"),
        ((0, 1, 1), "23"),
        ((1, 0, 0), "234"),
        ((1, 1, 1), "23"),
        ((0, 0, 9), ""),
    ],
)
def test_policy_limits_best_and_latest_checkpoints(
    policy: tuple[int, int, int], deleted: str
) -> None:
    assert to_delete(FOUR, Policy(*policy), smaller_is_better=True) == list(deleted)


def test_a_registered_checkpoint_is_never_deleted() -> None:
    registered = [replace(c, registered=c.uuid == "2") for c in FOUR]
    assert to_delete(registered, Policy(0, 0, 0), smaller_is_better=True) == ["1", "3", "4"]


def test_largest_metric_is_best_if_larger_is_better() -> None:
    assert to_delete(FOUR, Policy(0, 1, 0), smaller_is_better=False) == ["1", "2", "3"]


def test_unvalidated_checkpoint_remains_only_as_the_latest() -> None:
    unvalidated = [replace(c, metric=None) for c in FOUR]
    assert to_delete(unvalidated, Policy(4, 4, 0), smaller_is_better=True) == list("1234")
    assert to_delete(unvalidated, Policy(4, 4, 1), smaller_is_better=True) == list("123")


def test_best_and_latest_checkpoints_of_each_trial_remain() -> None:
    trials = [Checkpoint(f"{t}{n}", t, n, float(t * 10 + n)) for t in (1, 2) for n in (1, 2, 3)]
    assert to_delete(trials, Policy(0, 1, 1), smaller_is_better=True) == ["12", "22"]
    assert to_delete(trials, Policy(2, 0, 0), smaller_is_better=True) == ["13", "21", "22", "23"]


def test_a_metric_that_is_not_a_number_is_never_the_best() -> None:
    checkpoints = [replace(FOUR[0], metric=float("nan")), *FOUR[1:]]
    assert to_delete(checkpoints, Policy(1, 0, 0), smaller_is_better=True) == ["1", "3", "4"]
