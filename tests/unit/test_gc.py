"""Which checkpoints an ended experiment keeps (facts §7.9)."""

import pytest
from det_controlplane.core.gc import Checkpoint, Policy, to_delete
from hypothesis import given
from hypothesis import strategies as st

# Four checkpoints of one trial; the metric grows, so the first is the best.
FOUR = [Checkpoint(str(n), trial_id=1, steps_completed=n, metric=float(n)) for n in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("experiment_best", "trial_best", "latest", "deleted"),
    [
        (0, 0, 0, "1234"), (0, 0, 1, "123"), (0, 1, 0, "234"), (0, 1, 1, "23"), (1, 0, 0, "234"), (1, 1, 1, "23"),
    ],
)  # fmt: skip
def test_published_vectors(
    experiment_best: int, trial_best: int, latest: int, deleted: str
) -> None:
    policy = Policy(experiment_best, trial_best, latest)
    assert to_delete(FOUR, policy, smaller_is_better=True) == list(deleted)


def test_a_registered_checkpoint_is_never_deleted() -> None:
    checkpoints = [
        Checkpoint(c.uuid, 1, c.steps_completed, c.metric, registered=c.uuid == "2") for c in FOUR
    ]
    assert to_delete(checkpoints, Policy(0, 0, 0), smaller_is_better=True) == ["1", "3", "4"]


def test_larger_may_be_better() -> None:
    assert to_delete(FOUR, Policy(0, 1, 0), smaller_is_better=False) == ["1", "2", "3"]


def test_a_checkpoint_without_validation_survives_only_as_latest() -> None:
    checkpoints = [*FOUR, Checkpoint("5", 1, 5, None), Checkpoint("6", 1, 6, float("nan"))]
    assert "5" in to_delete(checkpoints, Policy(9, 9, 1), smaller_is_better=True)
    assert "6" not in to_delete(checkpoints, Policy(9, 9, 1), smaller_is_better=True)


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 50), st.none() | st.floats()), max_size=20
    ),
    st.builds(Policy, *[st.integers(0, 4)] * 3),
)
def test_the_newest_of_each_trial_is_kept_when_the_policy_says_so(
    rows: list[tuple[int, int, float | None]], policy: Policy
) -> None:
    checkpoints = [Checkpoint(str(i), *row) for i, row in enumerate(rows)]
    deleted = set(to_delete(checkpoints, policy, smaller_is_better=True))
    for trial in {c.trial_id for c in checkpoints}:
        kept = [c for c in checkpoints if c.trial_id == trial and c.uuid not in deleted]
        own = [c for c in checkpoints if c.trial_id == trial]
        assert len(kept) >= min(policy.save_trial_latest, len(own))
