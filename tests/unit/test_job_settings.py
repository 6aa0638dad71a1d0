"""Values by which jobs are ordered and limited."""

import pytest
from det_controlplane.core.schedule.job_settings import out_of_bounds


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("priority", 0, "priority must be between 1 (first) and 99 (last), not 0"),
        ("priority", 100, "priority must be between 1 (first) and 99 (last), not 100"),
        ("weight", 0, "weight must be above 0 and 1,000,000,000 at most, not 0"),
        ("weight", 2e9, "weight must be above 0 and 1,000,000,000 at most, not 2000000000.0"),
        ("weight", float("nan"), "weight must be above 0 and 1,000,000,000 at most, not nan"),
        ("max_slots", -1, "max_slots must be at least 0, not -1"),
    ],
)
def test_rejects_value_out_of_bounds_with_the_bounds(name: str, value: float, said: str) -> None:
    assert out_of_bounds(name, value) == said


@pytest.mark.parametrize(
    ("name", "value"),
    [("priority", 1), ("priority", 99), ("weight", 1e-9), ("weight", 1e9), ("max_slots", 0)],
)
def test_accepts_the_bounds_themselves(name: str, value: float) -> None:
    assert out_of_bounds(name, value) is None
