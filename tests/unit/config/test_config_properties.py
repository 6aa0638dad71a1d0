"""Properties of every configuration, valid or invalid."""

from typing import Any

import pytest
import yaml
from det_controlplane.core.config import (
    InvalidConfig,
    Sources,
    load_cluster,
    load_yaml,
    merge,
    petname,
    resolve,
    shim,
)
from det_controlplane.core.config.experiment import ExperimentConfig
from hypothesis import given, settings
from hypothesis import strategies as st

SOURCES = Sources(cluster_storage={"type": "shared_fs", "host_path": "/c"}, default_priority=42)
QUICK = settings(max_examples=150)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYS = [*ExperimentConfig.model_fields, "batches_per_step", "internal", "data_layer", "unknown"]
WORDS = [
    "name", "type", "metric", "max_trials", "max_time", "time_metric", "single", "grid", "adaptive_asha", "pbt",
    "image", "gpu", "environment_variables", "slots_per_trial", "shm_size", "shared_fs", "s3", "host_path",
    "container_path", "pattern", "action", "minval", "maxval", "int", "log", "base", "batches", "max_length",
]  # fmt: skip


def _json(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(WORDS) | st.text(max_size=3)
    return st.recursive(
        leaves | st.sampled_from(WORDS),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
        max_leaves=8,
    )


JUNK = st.dictionaries(st.sampled_from(KEYS), _json(SCALARS), max_size=6)


def _submit(raw: Any, sources: Sources = SOURCES) -> None:
    rejected_error: InvalidConfig | None = None
    try:
        resolve(raw, sources, name="n", seed=1)
    except InvalidConfig as error:
        rejected_error = error
    assert rejected_error is None or all(problem.message for problem in rejected_error.problems)
    assert rejected_error is None or rejected_error.problems


@QUICK
@given(JUNK)
def test_invalid_configuration_never_crashes(junk: dict[str, Any]) -> None:
    _submit(junk)
    _submit({"entrypoint": "x", "searcher": {"name": "single", "metric": "m"}} | junk)


@QUICK
@given(JUNK)
def test_invalid_template_never_crashes(junk: dict[str, Any]) -> None:
    config = {"entrypoint": "x", "searcher": {"name": "single", "metric": "m"}}
    _submit(config, Sources(template=junk, cluster_storage=SOURCES.cluster_storage))


@QUICK
@given(_json(SCALARS))
def test_document_that_is_not_an_object_never_crashes(junk: Any) -> None:
    _submit(junk)


@QUICK
@given(st.text(max_size=60) | st.text("{}[]:,-&*!|>'\" \n\tab1", max_size=40))
def test_any_text_is_loaded_or_rejected(text: str) -> None:
    try:
        document = load_yaml(text)
    except InvalidConfig:
        return
    assert isinstance(document, dict)


CLUSTER_KEYS = ["port", "resource_pools", "resource_manager", "checkpoint_storage", "security", "log", "webhooks",
                "task_container_defaults", "notebook_timeout", "scheduler", "retention_policy", "x"]  # fmt: skip


@QUICK
@given(st.dictionaries(st.sampled_from(CLUSTER_KEYS), _json(SCALARS), max_size=5))
def test_invalid_cluster_configuration_never_crashes(junk: dict[str, Any]) -> None:
    rejected_error: InvalidConfig | None = None
    try:
        load_cluster(junk)
    except InvalidConfig as error:
        rejected_error = error
    assert rejected_error is None or rejected_error.problems


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@QUICK
@given(st.dictionaries(st.text("abc", min_size=1), PLAIN | st.lists(PLAIN, max_size=3), max_size=4))
def test_yaml_written_by_pyyaml_is_read_back_unchanged(data: dict[str, Any]) -> None:
    assert load_yaml(yaml.safe_dump(data) if data else "{}") == data


RANGES = st.one_of(
    st.builds(
        lambda a, b: {"type": "int", "minval": a, "maxval": a + b},
        st.integers(-9, 9),
        st.integers(1, 9),
    ),
    st.builds(
        lambda vals: {"type": "categorical", "vals": vals}, st.lists(PLAIN, min_size=1, max_size=3)
    ),
    PLAIN,
)
GOOD = st.fixed_dictionaries(
    {
        "entrypoint": st.sampled_from(["python3 t.py", "m:T"])
        | st.lists(st.just("a"), min_size=1, max_size=2)
    },
    optional={
        "searcher": st.sampled_from(
            [
                {"name": "random", "metric": "m", "max_trials": 3},
                {"name": "adaptive_asha", "metric": "m", "max_trials": 3, "max_length": 1000},
                {
                    "name": "pbt",
                    "metric": "m",
                    "population_size": 4,
                    "num_rounds": 2,
                    "length_per_round": 3,
                },
            ]
        ),
        "hyperparameters": st.dictionaries(st.text("xyz", min_size=1), RANGES, max_size=3),
        "environment": st.fixed_dictionaries(
            {},
            optional={
                "image": st.sampled_from(["i", {"gpu": "g"}]),
                "environment_variables": st.lists(st.sampled_from(["A=1", "A=2", "B"]), max_size=3),
            },
        ),
        "resources": st.fixed_dictionaries(
            {}, optional={"shm_size": st.sampled_from(["1g", 4096])}
        ),
        "log_policies": st.lists(
            st.sampled_from([{"name": "CUDA OOM"}, {"pattern": "x"}]), max_size=2, unique_by=repr
        ),
        "batches_per_step": st.integers(1, 5),
        "min_validation_period": st.integers(0, 9) | st.just({"epochs": 2}),
    },
)
SINGLE = {"searcher": {"name": "single", "metric": "m"}}


@QUICK
@given(GOOD)
def test_resolving_a_resolved_configuration_changes_nothing(good: dict[str, Any]) -> None:
    first = resolve(SINGLE | good, SOURCES, name="n", seed=1).config
    json_value = first.to_json()
    second_config = resolve(json_value, SOURCES, name="other", seed=2)
    assert second_config.config.to_json() == json_value
    assert second_config.config == first == ExperimentConfig.load(json_value)


VALUES = st.none() | st.integers(0, 3)
SECTIONS: dict[str, st.SearchStrategy[Any]] = {
    "labels": st.lists(st.sampled_from("ab"), max_size=2),
    "resources": st.dictionaries(st.sampled_from(["priority", "weight"]), VALUES, max_size=2),
    "hyperparameters": st.dictionaries(
        st.sampled_from("xy"),
        VALUES | st.dictionaries(st.sampled_from("uv"), VALUES, max_size=2).map(lambda d: {"g": d}),
        max_size=2,
    ),
    "bind_mounts": st.lists(
        st.builds(
            lambda h, c: {"host_path": h, "container_path": c},
            st.sampled_from("ab"),
            st.sampled_from("xyz"),
        ),
        max_size=2,
        unique_by=lambda mount: mount["container_path"],
    ),
    "log_policies": st.lists(
        st.builds(
            lambda n, p: {"name": n, "pattern": p}, st.sampled_from("abc"), st.sampled_from("pq")
        ),
        max_size=2,
        unique_by=lambda policy: policy["name"],
    ),
    "environment": st.lists(st.sampled_from(["A=1", "A=2", "B", "C=3"]), max_size=3).map(
        lambda entries: {"environment_variables": {"cpu": entries}}
    ),
    "debug": st.none() | st.booleans(),
}
DOCUMENTS = st.fixed_dictionaries({}, optional=SECTIONS)


@QUICK
@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_merging_is_associative_where_kinds_agree(a: Any, b: Any, c: Any) -> None:
    for name in "xy":
        # A constant in the middle hides the group below it only when it is merged first.
        kinds = {
            isinstance(d["hyperparameters"][name], dict)
            for d in (a, b, c)
            if name in d.get("hyperparameters", {})
        }
        if len(kinds) > 1:
            return
    assert merge(a, merge(b, c)) == merge(merge(a, b), c)


@QUICK
@given(DOCUMENTS)
def test_merging_with_itself_or_an_empty_document_has_no_effect(document: dict[str, Any]) -> None:
    once, _ = shim(document)
    assert merge(once, once) == once
    assert merge({}, once) == once


@given(st.integers(0, 2**63))
def test_petname_has_three_words_and_depends_only_on_the_seed(seed: int) -> None:
    assert petname(seed) == petname(seed)
    assert len(petname(seed).split("-")) == 3


def test_neighbouring_seeds_have_different_petnames() -> None:
    assert len({petname(seed) for seed in range(1000)}) > 990


@pytest.mark.parametrize("source", ["searcher: {name: single}", '{"searcher": {"name": "single"}}'])
def test_yaml_and_json_are_read_equally(source: str) -> None:
    assert load_yaml(source) == {"searcher": {"name": "single"}}
