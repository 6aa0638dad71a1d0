"""Configurations of 0.12 to 0.38 and the searchers that were removed."""

from typing import Any

import pytest
from det_controlplane.core.config import InvalidConfig, Sources, resolve, shim

STORAGE = {"type": "shared_fs", "host_path": "/c"}
BASE: dict[str, Any] = {
    "entrypoint": "model_def:MyTrial",
    "searcher": {"name": "single", "metric": "loss"},
}


def current(raw: dict[str, Any]) -> dict[str, Any]:
    return shim(raw)[0]


def test_steps_become_batches_of_the_configured_step_size() -> None:
    raw = {"batches_per_step": 50, "min_validation_period": 2, "searcher": {"max_steps": 10}}
    assert current(raw) == {
        "scheduling_unit": 50,
        "min_validation_period": {"batches": 100},
        "searcher": {"max_length": {"batches": 500}},
    }


def test_without_a_step_size_a_step_is_a_hundred_batches() -> None:
    raw = {"min_checkpoint_period": 1, "searcher": {"name": "pbt", "steps_per_round": 3}}
    assert current(raw) == {
        "min_checkpoint_period": {"batches": 100},
        "searcher": {"name": "pbt", "length_per_round": {"batches": 300}},
    }


def test_the_steps_of_an_early_asha_trial_become_its_length() -> None:
    raw = {"searcher": {"name": "async_halving", "target_trial_steps": 8}}
    assert current(raw)["searcher"] == {"name": "async_halving", "max_length": {"batches": 800}}


def test_wrong_number_of_steps_is_reported_at_its_current_path() -> None:
    raw = BASE | {"searcher": {"name": "single", "metric": "loss", "max_steps": "many"}}
    with pytest.raises(InvalidConfig) as error:
        resolve(raw, Sources(cluster_storage=STORAGE), name="n", seed=1)
    (problem,) = error.value.problems
    assert problem.path == "searcher.max_length.batches"
    assert "'many'" in problem.message


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"environment": {"pod_spec": {"spec": {"hostNetwork": True}}}}, "environment.pod_spec"),
        ({"security": {"kerberos": {"config_file": "krb5.conf"}}}, "security"),
        ({"slurm": {"slots_per_node": 2}}, "slurm"),
        ({"pbs": {"sbatch_args": ["-l"]}}, "pbs"),
    ],
)
def test_settings_of_other_systems_are_accepted_with_a_warning(
    raw: dict[str, Any], path: str
) -> None:
    sources = Sources(cluster_storage=STORAGE)
    (warning,) = resolve(BASE | raw, sources, name="n", seed=1).warnings
    assert warning.startswith(f"{path} ")
    of_template = Sources(cluster_storage=STORAGE, template=raw)
    assert resolve(BASE, of_template, name="n", seed=1).warnings == (f"template: {warning}",)


def test_empty_settings_of_other_systems_are_accepted_silently() -> None:
    raw = {"slurm": {}, "pbs": {}, "environment": {"pod_spec": None}}
    assert resolve(BASE | raw, Sources(cluster_storage=STORAGE), name="n", seed=1).warnings == ()


def test_single_image_applies_to_every_kind_of_slot() -> None:
    assert current({"environment": {"image": "i"}})["environment"]["image"] == {
        "cpu": "i",
        "cuda": "i",
        "rocm": "i",
    }


def test_gpu_is_the_old_name_of_cuda() -> None:
    raw = {"environment": {"image": {"gpu": "i"}, "environment_variables": {"gpu": ["A=1"]}}}
    assert current(raw)["environment"] == {
        "image": {"cuda": "i"},
        "environment_variables": {"cuda": ["A=1"]},
    }


def test_list_of_variables_applies_to_every_kind_of_slot() -> None:
    variables = current({"environment": {"environment_variables": ["A=1"]}})["environment"]
    assert variables["environment_variables"] == {"cpu": ["A=1"], "cuda": ["A=1"], "rocm": ["A=1"]}


def test_an_action_object_of_a_log_policy_becomes_its_type() -> None:
    raw = {"log_policies": [{"pattern": "x", "action": {"type": "cancel_retries"}}]}
    assert current(raw)["log_policies"] == [{"pattern": "x", "action": "cancel_retries"}]


def test_submitted_document_is_not_modified() -> None:
    raw = {
        "environment": {"image": {"gpu": "i"}},
        "searcher": {"max_steps": 1},
        "resources": {"agent_label": "a"},
    }
    before = repr(raw)
    shim(raw)
    assert repr(raw) == before


@pytest.mark.parametrize(
    ("raw", "warning"),
    [
        ({"batches_per_step": 1}, "batches_per_step is now called scheduling_unit"),
        ({"data_layer": {"type": "s3"}}, "data_layer is ignored"),
        ({"security": {}}, "security is ignored"),
        ({"tensorboard_storage": {"type": "shared_fs"}}, "tensorboard_storage is ignored"),
        ({"resources": {"agent_label": "x"}}, "use resources.resource_pool"),
        ({"optimizations": {"mixed_precision": "O1"}}, "optimizations is deprecated"),
        ({"checkpoint_storage": {**STORAGE, "container_path": "/x"}}, "container_path is ignored"),
        (
            {"checkpoint_storage": {"type": "s3", "bucket": "b", "tensorboard_path": "/x"}},
            "tensorboard_path is ignored; use prefix",
        ),
        ({"searcher": {"max_length": 3, "max_time": 3}}, "searcher.max_length does not decide"),
    ],
)
def test_deprecated_keys_cause_a_warning(raw: dict[str, Any], warning: str) -> None:
    assert any(warning in messages for messages in shim(raw)[1])


def test_current_configuration_has_no_warnings() -> None:
    assert shim(BASE)[1] == []


def test_configuration_of_0_12_is_accepted() -> None:
    old = {
        "description": "mnist",
        "batches_per_step": 50,
        "data_layer": {"type": "shared_fs"},
        "checkpoint_storage": {**STORAGE, "tensorboard_path": "tb"},
        "hyperparameters": {"global_batch_size": 32},
        "resources": {"slots_per_trial": 2, "agent_label": ""},
        "min_validation_period": 4,
        "optimizations": {"aggregation_frequency": 2},
        "searcher": {"name": "single", "metric": "loss", "max_steps": 20},
        "entrypoint": "model_def:MyTrial",
    }
    config = resolve(old, Sources(), name="n", seed=1).config
    json_value = config.to_json()
    assert json_value["searcher"]["max_length"] == {"batches": 1000}
    assert json_value["min_validation_period"] == {"batches": 200}
    assert json_value["scheduling_unit"] == 50
    assert json_value["optimizations"]["aggregation_frequency"] == 2


@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        ("adaptive", "adaptive_asha"),
        ("adaptive_simple", "adaptive_asha"),
        ("sync_halving", "async_halving"),
    ],
)
def test_a_removed_searcher_names_its_replacement(name: str, replacement: str) -> None:
    raw = BASE | {
        "searcher": {"name": name, "metric": "loss", "target_trial_steps": 3, "step_budget": 9}
    }
    with pytest.raises(InvalidConfig) as error:
        resolve(raw, Sources(cluster_storage=STORAGE), name="n", seed=1)
    (problem,) = error.value.problems
    assert problem.path == "searcher.name"
    assert problem.message.startswith(f"{name} was removed; use {replacement}")


ASHA = {"max_trials": 9, "max_rungs": 2, "divisor": 3, "mode": "standard", "metric": "loss"}
OF_EACH_ERA: list[tuple[str, dict[str, Any], Any]] = [
    ("0.12 single", {"name": "single", "metric": "loss", "max_steps": 5}, {"batches": 500}),
    (
        "0.12 random",
        {"name": "random", "metric": "loss", "max_trials": 2, "max_steps": 5},
        {"batches": 500},
    ),
    ("0.12 grid", {"name": "grid", "metric": "loss", "max_steps": 5}, {"batches": 500}),
    (
        "0.12 adaptive_asha",
        {"name": "adaptive_asha", "target_trial_steps": 8, **ASHA},
        {"batches": 800},
    ),
    (
        "0.13 adaptive_asha",
        {"name": "adaptive_asha", "max_length": {"epochs": 8}, **ASHA},
        {"epochs": 8},
    ),
    (
        "0.17 stop_once",
        {"name": "adaptive_asha", "max_length": {"records": 8}, "stop_once": True, **ASHA},
        {"records": 8},
    ),
    ("0.36 unitless", {"name": "single", "metric": "loss", "max_length": 8}, 8),
    (
        "0.38 adaptive_asha",
        {"name": "adaptive_asha", "time_metric": "batches", "max_time": 9, **ASHA},
        None,
    ),
]


@pytest.mark.parametrize(
    ("searcher", "length"), [e[1:] for e in OF_EACH_ERA], ids=[e[0] for e in OF_EACH_ERA]
)
def test_searchers_of_every_version_are_accepted(searcher: dict[str, Any], length: Any) -> None:
    raw = BASE | {"searcher": searcher}
    config = resolve(raw, Sources(cluster_storage=STORAGE), name="n", seed=1).config
    assert config.to_json()["searcher"]["max_length"] == length


def test_pbt_of_0_12_is_accepted() -> None:
    raw = BASE | {
        "searcher": {
            "name": "pbt", "metric": "loss", "population_size": 2, "num_rounds": 3, "steps_per_round": 2,
            "replace_function": {"truncate_fraction": 0.5},
            "explore_function": {"resample_probability": 0.1, "perturb_factor": 0.3},
        }
    }  # fmt: skip
    searcher = resolve(raw, Sources(cluster_storage=STORAGE), name="n", seed=1).config.to_json()[
        "searcher"
    ]
    assert searcher["length_per_round"] == {"batches": 200}
    assert searcher["replace_function"] == {"truncate_fraction": 0.5}


@pytest.mark.parametrize(
    "lengths",
    [
        {"max_steps": 4, "max_trials": 3},
        {"target_trial_steps": 8, "step_budget": 64, "train_stragglers": True, "max_rungs": 2},
        {"max_length": {"batches": 800}, "budget": {"batches": 6400}, "num_rungs": 3},
    ],
)
@pytest.mark.parametrize("name", ["adaptive", "adaptive_simple", "sync_halving"])
def test_removed_searcher_of_every_version_has_one_problem_with_a_hint(
    name: str, lengths: dict[str, Any]
) -> None:
    raw = BASE | {"searcher": {"name": name, "metric": "loss", "divisor": 4, **lengths}}
    with pytest.raises(InvalidConfig) as error:
        resolve(raw, Sources(cluster_storage=STORAGE), name="n", seed=1)
    assert [p.path for p in error.value.problems] == ["searcher.name"]
    assert "was removed; use a" in error.value.problems[0].message
