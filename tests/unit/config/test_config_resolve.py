"""Resolving configurations: defaults, precedence and refusals."""

import json
from typing import Any

import pytest
from det_controlplane.core.config import InvalidConfig, Resolved, Sources, load_yaml, resolve
from det_controlplane.core.config.environment import CPU_IMAGE, CUDA_IMAGE, ROCM_IMAGE
from det_controlplane.core.config.experiment import ExperimentConfig

SHARED_FS = {"type": "shared_fs", "host_path": "/checkpoints"}
SOURCES = Sources(cluster_storage=SHARED_FS, default_priority=42)
MINIMAL: dict[str, Any] = {
    "name": "mnist",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
}


def resolved(sources: Sources = SOURCES, **changes: Any) -> Resolved:
    return resolve(MINIMAL | changes, sources, name="Experiment (x)", seed=7)


def problems(sources: Sources = SOURCES, **changes: Any) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as error:
        resolved(sources, **changes)
    return {problem.path: problem.message for problem in error.value.problems}


def test_horovod_refuses_min_slots_per_trial_with_one_sentence() -> None:
    found = problems(
        entrypoint="python3 -m determined.launch.horovod python3 train.py",
        resources={"slots_per_trial": 4, "min_slots_per_trial": 2},
    )
    assert found == {
        "resources.min_slots_per_trial": "cannot be used with Horovod, which does not change its number of ranks;"
        " start the program by determined.launch.torch_distributed, or remove min_slots_per_trial"
    }


@pytest.mark.parametrize("key", ["slots_per_trial", "min_slots_per_trial"])
def test_number_of_slots_that_is_a_word_is_named(key: str) -> None:
    slots = {"slots_per_trial": 4, "min_slots_per_trial": 2, key: "two"}
    assert problems(resources=slots) == {f"resources.{key}": "must be a whole number, not 'two'"}


def test_a_minimal_configuration_shows_every_default() -> None:
    json_value = resolved().config.to_json()
    assert json_value == json.loads(json.dumps(json_value))
    assert json_value["bind_mounts"] == []
    assert json_value["checkpoint_policy"] == "best"
    assert json_value["checkpoint_storage"]["save_trial_best"] == 1
    assert json_value["max_restarts"] == 5
    assert json_value["min_validation_period"] == {"batches": 0}
    assert json_value["resources"]["slots_per_trial"] == 1
    assert json_value["resources"]["priority"] == 42
    assert json_value["scheduling_unit"] == 100
    assert json_value["environment"]["image"]["cpu"] == CPU_IMAGE
    assert [policy["name"] for policy in json_value["log_policies"]] == ["CUDA OOM", "ECC Error"]


def test_explicit_image_of_determined_is_used() -> None:
    old = "determinedai/pytorch-ngc-dev:0736b6d"
    images = resolved(environment={"image": old}).config.environment.image
    assert (images.cpu, images.cuda, images.rocm) == (old, old, old)
    images = resolved(environment={"image": {"gpu": old}}).config.environment.image
    assert (images.cpu, images.cuda, images.rocm) == (CPU_IMAGE, old, ROCM_IMAGE)
    images = resolved(environment={"image": {"cpu": old}}).config.environment.image
    assert (images.cpu, images.cuda, images.rocm) == (old, CUDA_IMAGE, ROCM_IMAGE)


def test_default_name_and_seed_do_not_override_the_users() -> None:
    unnamed = {key: value for key, value in MINIMAL.items() if key != "name"}
    config = resolve(unnamed, SOURCES, name="Experiment (calm-red-fox)", seed=7).config
    assert config.name == "Experiment (calm-red-fox)"
    assert config.reproducibility.experiment_seed == 7
    given_config = resolved(reproducibility={"experiment_seed": 3}).config
    assert (given_config.name, given_config.reproducibility.experiment_seed) == ("mnist", 3)


def test_a_resolved_configuration_resolves_to_itself() -> None:
    first = resolved(
        hyperparameters={"lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1}, "n": 3},
        environment={"image": "python:3.11", "environment_variables": ["A=1"]},
        resources={"shm_size": "1.5 GiB"},
    ).config
    second_config = resolve(first.to_json(), Sources(), name="other", seed=1).config
    assert second_config == first
    assert second_config.to_json() == first.to_json()


def test_a_stored_configuration_loads_back() -> None:
    config = resolved().config
    assert ExperimentConfig.load(config.to_json()) == config


def test_rejects_broken_stored_configuration_with_its_path() -> None:
    stored_config = resolved().config.to_json() | {"max_restarts": "many"}
    with pytest.raises(InvalidConfig, match="max_restarts: must be a whole number, not 'many'"):
        ExperimentConfig.load(stored_config)


def test_all_problems_are_reported_together() -> None:
    problems_by_path = problems(
        entrypoint=None,
        searcher={"name": "random"},
        resources={"slots_per_trail": 2, "priority": 100},
        hyperparameters={"lr": {"type": "double", "minval": 1, "maxval": 0}},
        workspace="vision",
        enviroment={},
    )
    assert set(problems_by_path) == {
        "entrypoint",
        "searcher.metric",
        "searcher.max_trials",
        "resources.slots_per_trail",
        "resources.priority",
        "hyperparameters.lr",
        "project",
        "enviroment",
    }
    assert "did you mean 'slots_per_trial'?" in problems_by_path["resources.slots_per_trail"]
    assert "did you mean 'environment'?" in problems_by_path["enviroment"]
    assert problems_by_path["resources.priority"] == "must be at most 99, not 100"


def test_problems_of_sections_and_their_fields_are_reported_together() -> None:
    problems_by_path = problems(
        searcher={"name": "async_halving", "metric": "loss", "max_trials": 0, "max_length": None},
        resources={"slots": 2, "priority": 100},
        checkpoint_storage={"type": "s3", "prefix": "a/../b", "access_key": "me"},
        hyperparameters={"lr": {"type": "log", "minval": 1, "maxval": 0}},
    )
    assert set(problems_by_path) == {
        "searcher.max_trials",
        "searcher.num_rungs",
        "searcher.time_metric",
        "resources.priority",
        "resources.slots",
        "checkpoint_storage.bucket",
        "checkpoint_storage.prefix",
        "checkpoint_storage.secret_key",
        "hyperparameters.lr.base",
        "hyperparameters.lr",
    }


def test_wrong_field_is_not_also_reported_as_missing() -> None:
    searcher = {"name": "async_halving", "metric": "loss", "max_trials": 4, "num_rungs": 2}
    assert set(problems(searcher=searcher | {"time_metric": "batches", "max_time": 0})) == {
        "searcher.max_time"
    }
    assert set(problems(searcher=searcher | {"max_length": {"batches": "many"}})) == {
        "searcher.max_length.batches"
    }
    storage = {"type": "shared_fs", "host_path": 5, "storage_path": "/elsewhere"}
    assert set(problems(checkpoint_storage=storage)) == {"checkpoint_storage.host_path"}


def test_wrong_variable_of_all_slot_kinds_is_reported_once() -> None:
    messages = problems(environment={"environment_variables": ["A=1", 5], "image": 7})
    assert set(messages) == {"environment.environment_variables[1]", "environment.image"}
    by_kind = problems(environment={"environment_variables": {"cpu": [5], "cuda": ["A=1"]}})
    assert set(by_kind) == {"environment.environment_variables.cpu[0]"}


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"searcher": None}, "searcher", "is required"),
        ({"searcher": "single"}, "searcher", "must be an object"),
        ({"searcher": {"metric": "loss"}}, "searcher.name", "choose one of single, random"),
        ({"searcher": {"name": "best", "metric": "x"}}, "searcher.name", "must be one of single"),
        ({"checkpoint_storage": {"type": "hdfs"}}, "checkpoint_storage.type", "was removed"),
        ({"checkpoint_policy": "some"}, "checkpoint_policy", "must be one of 'best', 'all' or"),
        ({"max_restarts": True}, "max_restarts", "must be a whole number, not True"),
        ({"max_restarts": -1}, "max_restarts", "must be at least 0, not -1"),
        ({"debug": "yes"}, "debug", "must be true or false, not 'yes'"),
        ({"labels": "x"}, "labels", "must be a list, not 'x'"),
        ({"labels": [3]}, "labels[0]", "must be text, not 3"),
        ({"name": ""}, "name", "must not be empty"),
        ({"environment": []}, "environment", "must be an object, not []"),
        ({"entrypoint": []}, "entrypoint", "a shell command or a list of arguments"),
        ({"entrypoint": " "}, "entrypoint", "not empty"),
        ({"internal": {"native": {}}}, "internal", "native API was removed"),
        ({"resources": {"slots": 2}}, "resources.slots", "use slots_per_trial"),
        ({"resources": {"native_parallel": True}}, "resources.native_parallel", "was removed"),
        ({"resources": {"shm_size": "4 xx"}}, "resources.shm_size", "a size like 4g"),
        ({"resources": {"weight": 0}}, "resources.weight", "must be greater than 0"),
        (
            {"bind_mounts": [{"host_path": "data", "container_path": "/d"}]},
            "bind_mounts[0].host_path",
            "must be an absolute path, not 'data'",
        ),
        (
            {"bind_mounts": [{"host_path": "/data", "container_path": "."}]},
            "bind_mounts[0].container_path",
            "must not be '.'",
        ),
        (
            {"bind_mounts": [{"host_path": "/data", "container_path": "./"}]},
            "bind_mounts[0].container_path",
            "must not be './'",
        ),
        ({"resources": {"shm_size": "1 gi"}}, "resources.shm_size", "a size like 4g"),
        ({"resources": {"shm_size": "1 i"}}, "resources.shm_size", "a size like 4g"),
        ({"resources": {"devices": ["/dev/a"]}}, "resources.devices[0]", "'/host:/container'"),
        ({"resources": {"devices": ["a:/b"]}}, "resources.devices[0].host_path", "absolute"),
        (
            {"log_policies": [{"name": "x", "pattern": "a"}, {"name": "x", "pattern": "b"}]},
            "log_policies[1].name",
            "already the name of log_policies[0]",
        ),
        (
            {"profiling": {"begin_on_batch": 5, "end_after_batch": 3}},
            "profiling.end_after_batch",
            "must be at least begin_on_batch",
        ),
        (
            {"log_policies": [{"name": "x", "pattern": "("}]},
            "log_policies[0].pattern",
            "regular expression",
        ),
        ({"log_policies": [{"action": "cancel_retries"}]}, "log_policies[0]", "needs a pattern"),
        ({"log_policies": [{"pattern": f"a{n}"} for n in range(51)]}, "log_policies", "at most 50"),
        (
            {"retention_policy": {"log_retention_days": -2}},
            "retention_policy.log_retention_days",
            "-1",
        ),
        (
            {"min_validation_period": {"hours": 1}},
            "min_validation_period",
            "batches, records, epochs",
        ),
        (
            {"min_checkpoint_period": {"epochs": "x"}},
            "min_checkpoint_period.epochs",
            "must be a whole number of at least 0, not 'x'",
        ),
        (
            {"searcher": {"name": "single", "metric": "m", "max_length": {"records": -1}}},
            "searcher.max_length.records",
            "must be a whole number of at least 1, not -1",
        ),
        (
            {
                "searcher": {"name": "grid", "metric": "m"},
                "hyperparameters": {"layers": [[{"type": "int", "minval": 1, "maxval": 9}]]},
            },
            "hyperparameters.layers[0][0]",
            "grid search needs 'count'",
        ),
        (
            {"environment": {"environment_variables": ["=x"]}},
            "environment.environment_variables[0]",
            "NAME",
        ),
        (
            {"reproducibility": {"experiment_seed": 2**32}},
            "reproducibility.experiment_seed",
            "at most",
        ),
    ],
)
def test_rejects_wrong_value_with_path_and_remedy(
    changes: dict[str, Any], path: str, message: str
) -> None:
    assert message in problems(**changes)[path]


def test_rejects_experiment_without_checkpoint_storage() -> None:
    problems_by_path = problems(Sources())
    assert "neither this configuration nor the cluster" in problems_by_path["checkpoint_storage"]


def test_an_unmanaged_experiment_needs_no_entrypoint() -> None:
    config = MINIMAL | {"entrypoint": None}
    assert resolve(config, SOURCES, name="x", seed=1, managed=False).config.entrypoint is None


def test_an_entrypoint_list_keeps_its_arguments() -> None:
    assert resolved(entrypoint=["python3", "a b.py"]).config.to_json()["entrypoint"] == [
        "python3",
        "a b.py",
    ]


def test_whole_numbers_may_be_written_as_floats() -> None:
    document = load_yaml("searcher: {name: random, metric: x, max_trials: 1e3}")
    assert resolved(**document).config.to_json()["searcher"]["max_trials"] == 1000


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("1 g", 2**30), ("1GiB", 2**30), ("1.5 kb", 1536), ("7b", 7)]
)
def test_accepts_sizes_in_the_format_of_docker(text: str, size: int) -> None:
    assert resolved(resources={"shm_size": text}).config.resources.shm_size == size


def test_range_within_a_list_is_a_constant_with_a_warning() -> None:
    layers = [{"type": "int", "minval": 1, "maxval": 9, "count": 2}]
    (warning,) = resolved(hyperparameters={"layers": layers}).warnings
    assert warning.startswith("hyperparameters.layers[0] is in a list")


def test_data_set_outside_of_a_list_is_a_warning() -> None:
    (warning,) = resolved(data={"source": "s3://bucket/x", "at": "/data"}).warnings
    assert warning.startswith("data is an object, so nothing is loaded: make it a list")
    assert resolved(data={"source": "s3://bucket/x"}).warnings == ()


def test_max_slots_below_slots_per_trial_is_a_warning() -> None:
    result = resolved(resources={"max_slots": 1, "slots_per_trial": 2})
    assert any("no trial will run" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    "bad", [{"description": "a\0b"}, {"data": {"x": float("nan")}}, {"data": {1: 2}}]
)
def test_rejects_values_that_the_database_cannot_store(bad: dict[str, Any]) -> None:
    assert problems(**bad)


def test_fields_of_other_union_members_are_unknown() -> None:
    problems_by_path = problems(
        checkpoint_storage={"type": "directory", "container_path": "/c", "bucket": "b"}
    )
    assert "container_path" in problems_by_path["checkpoint_storage.bucket"]
    assert "host_path" not in problems_by_path["checkpoint_storage.bucket"]
