"""The allowed content of a metric report and of a summary."""

import math

import pytest
from det_controlplane.core.trials.metrics import (
    Conflict,
    is_better,
    merged,
    number,
    storable,
    summarise,
)
from hypothesis import given
from hypothesis import strategies as st


def test_summary_has_count_sum_minimum_maximum_mean_and_last() -> None:
    summary = summarise({}, [{"loss": 3.0}, {"loss": 1.0}, {"loss": 2.0}])
    assert summary["loss"] == {
        "type": "number", "count": 3, "sum": 6.0, "min": 1.0, "max": 3.0, "mean": 2.0, "last": 2.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "number"), ("NaN", "number"), (True, "bool"), ("text", "string"), ("2024-01-02T03:04:05Z", "date"),
        ([1], "array"), ({"a": 1}, "object"), (None, "null"),
    ],
)  # fmt: skip
def test_metrics_have_types(value: object, kind: str) -> None:
    assert summarise({}, [{"m": value}])["m"]["type"] == kind


def test_metric_with_changing_types_becomes_a_string() -> None:
    entry = summarise({}, [{"m": 1.0}, {"m": [1]}])["m"]
    assert (entry["type"], entry["count"], entry["last"]) == ("string", 2, [1])


def test_nonfinite_numbers_are_stored_as_strings() -> None:
    values = {"a": math.nan, "b": [math.inf, -math.inf], "c": {"d": "Nan"}}
    assert storable(values) == {"a": "NaN", "b": ["Infinity", "-Infinity"], "c": {"d": "NaN"}}
    assert math.isnan(number("NaN") or 0.0)
    assert number("Infinity") == math.inf
    assert number("1.5") is None


def test_second_report_of_a_step_adds_but_does_not_change_metrics() -> None:
    assert merged({"a": 1}, {"b": 2}, "trial 1") == {"a": 1, "b": 2}
    assert merged({"a": 1}, {"a": 1}, "trial 1") == {"a": 1}
    with pytest.raises(Conflict, match="trial 1: metric 'a' was already reported as 1, not 2"):
        merged({"a": 1}, {"a": 2}, "trial 1")


def test_nan_is_never_better_and_anything_is_better_than_nan() -> None:
    assert not is_better(math.nan, None, True)
    assert is_better(5.0, math.nan, True)
    assert is_better(1.0, 2.0, True)
    assert is_better(2.0, 1.0, False)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=30)
)
def test_summaries_of_single_and_batched_reports_are_equal(values: list[float]) -> None:
    reports = [{"m": v} for v in values]
    step_by_step: dict[str, object] = {}
    for report in reports:
        step_by_step = summarise(step_by_step, [report])
    assert step_by_step == summarise({}, reports)
    assert step_by_step["m"]["min"] == min(values)  # type: ignore[index]


def test_summary_does_not_store_long_values() -> None:
    """Tables read the whole summary for each column that they sort by."""
    texts = [{"text": "x" * 2_000}, {"text": "y" * 2_000}]
    assert summarise({}, texts)["text"] == {"type": "string", "count": 2, "last": None}
