"""The metric names that an experiment may have."""

import pytest
from det_controlplane.core.trials import metric_names
from det_controlplane.core.trials.metric_names import (
    MOST_BYTES,
    MOST_GROUPS,
    MOST_NAMES,
    admit,
    are_known,
    is_logged,
    measure,
    refusal,
)
from hypothesis import given
from hypothesis import strategies as st


def values(count: int, prefix: str = "m") -> dict[str, float]:
    return {f"{prefix}{n}": 1.0 for n in range(count)}


def test_accepts_names_up_to_the_limit_over_all_groups() -> None:
    names = admit({}, "one", values(MOST_NAMES - 2)).names
    admission = admit(names, "two", values(5))
    assert admission.refused == ("m2", "m3", "m4")
    assert measure(admission.names)[0] == MOST_NAMES


def test_accepts_existing_names_at_the_limit() -> None:
    names = admit({}, "training", values(MOST_NAMES)).names
    admission = admit(names, "training", {"new": 1.0, "m7": 2.0})
    assert admission.refused == ("new",)
    assert admission.names == names
    assert are_known(names, "training", {"m7": 2.0})


def test_names_are_limited_by_their_bytes() -> None:
    long = {f"{n:04}" + "é" * 500: 1.0 for n in range(500)}
    admission = admit({}, "g", long)
    assert measure(admission.names)[1] <= MOST_BYTES
    assert len(admission.refused) == 500 - MOST_BYTES // (1004 + 1)


def test_rejects_groups_beyond_the_limit_with_all_their_metrics() -> None:
    names: metric_names.MetricNames = {}
    for n in range(MOST_GROUPS):
        names = admit(names, f"group-{n}", {}).names
    admission = admit(names, "another", {"a": 1.0, "b": 1.0})
    assert (admission.refused, admission.has_group("another")) == (("a", "b"), False)
    assert admit(names, "group-7", {"a": 1.0}).refused == ()


def test_accepts_searcher_metric_beyond_the_limit() -> None:
    names: metric_names.MetricNames = {}
    for n in range(MOST_GROUPS):
        names = admit(names, f"group-{n}", values(MOST_NAMES // MOST_GROUPS)).names
    report = {"loss": 0.5, "batches": 1, "epochs": 1, "other": 1.0}
    assert admit(names, "validation", report, {"loss"}).refused == ("other",)
    assert admit(names, "training", report, {"loss"}).refused == ("loss", "other")
    assert admit(names, "another", report, {"loss"}).refused == tuple(report)


def test_a_name_with_values_of_several_types_is_a_string() -> None:
    names = admit({}, "g", {"a": 1.0, "b": "NaN", "c": None}).names
    assert names == {"g": {"a": "number", "b": "number", "c": "null"}}
    assert not are_known(names, "g", {"a": "text"})
    names = admit(names, "g", {"a": "text"}).names
    assert names["g"]["a"] == "string"
    assert admit(names, "g", {"a": 2.0}).names == names


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.text(max_size=4)), st.none())))
def test_accepted_names_are_never_removed(
    reports: list[tuple[str, list[str], None]],
) -> None:
    names: metric_names.MetricNames = {}
    for group, metrics, value in reports:
        before, report = names, dict.fromkeys(metrics, value)
        names = admit(before, group, report).names
        assert are_known(names, group, report)
        assert all(before[g].keys() <= names[g].keys() for g in before)


def test_refusal_names_the_limit_the_trial_and_the_remedy() -> None:
    admission = admit({}, "layers", {**values(MOST_NAMES), "w" * 900: 1.0})
    message = refusal(3, 17, "layers", admission)
    assert "experiment 3 has 2,000 metric names" in message
    assert "up to 2,000 names, 262,144 bytes and 100 groups" in message
    assert "1 new metrics of trial 17 in group 'layers' were not stored" in message
    assert "Report fewer different names" in message
    assert len(message) < 700
    assert "such as" not in refusal(3, 17, "g", metric_names.Admission({}))


@pytest.mark.parametrize(
    ("refusals", "logged"),
    [(1, True), (2, False), (9, False), (10, True), (20, False), (100, True), (101, False)],
)
def test_log_shows_few_of_many_refusals(refusals: int, logged: bool) -> None:
    assert is_logged(refusals) is logged
