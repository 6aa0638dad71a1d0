"""Merging and the order of the sources."""

from typing import Any

import pytest
from det_controlplane.core.config import Sources, merge, resolve
from det_controlplane.core.config.environment import CPU_IMAGE
from det_controlplane.core.config.layers import COMMON_KEYS
from det_controlplane.core.config.searchers import (
    PBT,
    AdaptiveASHA,
    AsyncHalving,
    Custom,
    Grid,
    LocalASHA,
    Random,
    Single,
)
from det_controlplane.core.config.storage import GCS, S3, Azure, Directory, SharedFS
from pydantic import BaseModel

STORAGE = {"type": "shared_fs", "host_path": "/c"}
MINIMAL: dict[str, Any] = {"entrypoint": "x", "searcher": {"name": "single", "metric": "loss"}}


def merged(high: dict[str, Any], low: dict[str, Any]) -> dict[str, Any]:
    return merge(high, low)


def test_objects_merge_key_by_key_with_precedence_of_the_high_side() -> None:
    high = {"resources": {"slots_per_trial": 2}}
    low = {"resources": {"slots_per_trial": 1, "priority": 3}, "debug": True}
    assert merged(high, low) == {"resources": {"slots_per_trial": 2, "priority": 3}, "debug": True}


def test_keys_of_the_high_side_come_first_in_their_order() -> None:
    merged_hparams = merged(
        {"hyperparameters": {"z": 1, "b": {"y": 1, "x": 2}}},
        {"hyperparameters": {"a": 0, "b": {"x": 0, "w": 0}, "z": 0}},
    )["hyperparameters"]
    assert list(merged_hparams) == ["z", "b", "a"]
    assert list(merged_hparams["b"]) == ["y", "x", "w"]


def test_null_counts_as_absent() -> None:
    assert merged({"name": None}, {"name": "x"}) == {"name": "x"}


def test_null_in_user_data_is_a_value() -> None:
    high = {"hyperparameters": {"a": None}, "data": {"b": None}}
    low = {"hyperparameters": {"a": 1, "c": None}, "data": {"b": 2}}
    assert merged(high, low) == {"hyperparameters": {"a": None, "c": None}, "data": {"b": None}}


def test_unions_merge_only_when_both_are_the_same_member() -> None:
    s3 = {"checkpoint_storage": {"type": "s3", "bucket": "b"}}
    assert merged(s3, {"checkpoint_storage": STORAGE}) == s3
    same = {"checkpoint_storage": {"type": "shared_fs", "save_trial_best": 3}}
    assert merged(same, {"checkpoint_storage": STORAGE})["checkpoint_storage"]["host_path"] == "/c"


def test_union_without_a_kind_uses_the_kind_of_the_low_side() -> None:
    high = {"checkpoint_storage": {"save_trial_best": 3}}
    storage = merged(high, {"checkpoint_storage": STORAGE})["checkpoint_storage"]
    assert storage == STORAGE | {"save_trial_best": 3}


def test_searcher_of_another_kind_replaces_the_low_side() -> None:
    high = {"searcher": {"name": "single", "metric": "a"}}
    low = {"searcher": {"name": "random", "metric": "b", "max_trials": 2}}
    assert merged(high, low) == high


def test_common_storage_keys_remain_if_the_kind_changes() -> None:
    high = {"checkpoint_storage": {"type": "s3", "bucket": "b", "save_trial_best": 2}}
    low = {"checkpoint_storage": STORAGE | {"save_trial_best": 5, "save_trial_latest": 7}}
    assert merged(high, low)["checkpoint_storage"] == {
        "type": "s3",
        "bucket": "b",
        "save_trial_best": 2,
        "save_trial_latest": 7,
    }


def test_common_searcher_keys_remain_if_the_searcher_changes() -> None:
    high = {"searcher": {"name": "single"}}
    common = {"metric": "accuracy", "smaller_is_better": False, "source_trial_id": 3}
    low = {"searcher": {"name": "random", "max_trials": 2, **common}}
    assert merged(high, low) == {"searcher": {"name": "single", **common}}


@pytest.mark.parametrize(
    ("section", "kinds"),
    [
        ("checkpoint_storage", (SharedFS, Directory, S3, GCS, Azure)),
        ("searcher", (Single, Random, Grid, AsyncHalving, AdaptiveASHA, LocalASHA, PBT, Custom)),
    ],
)
def test_common_keys_are_fields_of_every_kind(
    section: str, kinds: tuple[type[BaseModel], ...]
) -> None:
    shared = set.intersection(*(set(kind.model_fields) for kind in kinds)) - {"name", "type"}
    assert set(COMMON_KEYS[(section,)]) == shared


def test_experiments_ignore_task_slots_of_a_template() -> None:
    template = {"resources": {"slots": 4, "shm_size": "1g"}}
    sources = Sources(template=template, cluster_storage=STORAGE)
    resources = resolve(MINIMAL, sources, name="n", seed=1).config.resources
    assert (resources.slots, resources.slots_per_trial) == (None, 1)
    assert resources.shm_size == 1024**3


def test_devices_written_as_text_merge_like_objects() -> None:
    config = MINIMAL | {"resources": {"devices": ["/dev/a:/dev/x", "/dev/b:/dev/y:r"]}}
    template = {"resources": {"devices": ["/dev/c:/dev/x", "/dev/c:/dev/z"]}}
    sources = Sources(template=template, cluster_storage=STORAGE)
    devices = resolve(config, sources, name="n", seed=1).config.to_json()["resources"]["devices"]
    assert [(d["host_path"], d["container_path"], d["mode"]) for d in devices] == [
        ("/dev/a", "/dev/x", "mrw"),
        ("/dev/b", "/dev/y", "r"),
        ("/dev/c", "/dev/z", "mrw"),
    ]


def test_hyperparameters_merge_by_name_but_not_inside_one() -> None:
    high = {"hyperparameters": {"lr": {"type": "int", "minval": 1, "maxval": 2}, "g": {"a": 1}}}
    low = {
        "hyperparameters": {
            "lr": {"type": "int", "minval": 1, "maxval": 9, "count": 3},
            "g": {"a": 2, "b": 3},
            "n": 1,
        }
    }
    assert merged(high, low)["hyperparameters"] == {
        "lr": {"type": "int", "minval": 1, "maxval": 2},
        "g": {"a": 1, "b": 3},
        "n": 1,
    }


def test_mounts_and_devices_are_appended_by_container_path() -> None:
    def mount(host: str, container: str) -> dict[str, str]:
        return {"host_path": host, "container_path": container}

    high = {"bind_mounts": [mount("/a", "/x")], "resources": {"devices": [mount("/d", "/e")]}}
    low = {
        "bind_mounts": [mount("/b", "/x"), mount("/c", "/y")],
        "resources": {"devices": [mount("/f", "/g")]},
    }
    result = merged(high, low)
    assert result["bind_mounts"] == [mount("/a", "/x"), mount("/c", "/y")]
    assert result["resources"]["devices"] == [mount("/d", "/e"), mount("/f", "/g")]


def test_proxy_ports_are_appended_by_port() -> None:
    high = {"environment": {"proxy_ports": [{"proxy_port": 1, "proxy_tcp": True}]}}
    low = {"environment": {"proxy_ports": [{"proxy_port": 1}, {"proxy_port": 2}]}}
    assert merged(high, low)["environment"]["proxy_ports"] == [
        {"proxy_port": 1, "proxy_tcp": True},
        {"proxy_port": 2},
    ]


def test_users_environment_variables_override_lower_ones() -> None:
    high = {"environment": {"environment_variables": {"cpu": ["A=user", "B=1"]}}}
    low = {"environment": {"environment_variables": {"cpu": ["A=admin", "C=2"]}}}
    assert merged(high, low)["environment"]["environment_variables"]["cpu"] == [
        "C=2",
        "A=user",
        "B=1",
    ]


def test_log_policies_are_joined_by_name() -> None:
    high = {"log_policies": [{"name": "oom", "pattern": "mine"}]}
    low = {"log_policies": [{"name": "oom", "pattern": "theirs"}, {"name": "ecc", "pattern": "e"}]}
    names = [(p["name"], p["pattern"]) for p in merged(high, low)["log_policies"]]
    assert names == [("oom", "mine"), ("ecc", "e")]


def test_other_lists_are_replaced_as_a_whole() -> None:
    assert merged({"labels": ["a"]}, {"labels": ["b", "c"]}) == {"labels": ["a"]}


def test_first_source_with_a_value_wins() -> None:
    def environment(image: str) -> dict[str, Any]:
        return {"environment": {"image": image}}

    def image(config: dict[str, Any], **sources: Any) -> str:
        every = Sources(cluster_storage=STORAGE, **sources)
        return resolve(MINIMAL | config, every, name="n", seed=1).config.environment.image.cpu

    layers: dict[str, Any] = {
        "template": environment("template"),
        "pool_task_defaults": environment("pool"),
        "cluster_task_defaults": environment("cluster"),
    }
    assert image(environment("user"), **layers) == "user"
    assert image({}, **layers) == "template"
    del layers["template"]
    assert image({}, **layers) == "pool"
    del layers["pool_task_defaults"]
    assert image({}, **layers) == "cluster"
    assert image({}) == CPU_IMAGE


def test_pool_defaults_replace_all_cluster_defaults() -> None:
    sources = Sources(
        cluster_storage=STORAGE,
        pool_task_defaults={"preemption_timeout": 5},
        cluster_task_defaults={"environment": {"image": "cluster"}},
    )
    config = resolve(MINIMAL, sources, name="n", seed=1).config
    assert config.preemption_timeout == 5
    assert config.environment.image.cpu != "cluster"


def test_workspace_storage_overrides_cluster_storage() -> None:
    workspace = {"type": "s3", "bucket": "team"}
    sources = Sources(workspace_storage=workspace, cluster_storage=STORAGE)
    assert resolve(MINIMAL, sources, name="n", seed=1).config.checkpoint_storage.type == "s3"


def test_invariant_policies_override_the_user_the_cluster_last() -> None:
    sources = Sources(
        cluster_storage=STORAGE,
        invariant_policies=(
            {"resources": {"priority": 60}, "description": "workspace"},
            {"description": "cluster"},
        ),
    )
    submitted_config = MINIMAL | {
        "resources": {"priority": 1, "slots_per_trial": 4},
        "description": "user",
    }
    config = resolve(submitted_config, sources, name="n", seed=1).config
    assert (config.resources.priority, config.resources.slots_per_trial) == (60, 4)
    assert config.description == "cluster"


def test_users_default_environment_overrides_old_spellings_of_a_template() -> None:
    template = {"environment": {"image": {"gpu": "cuda-image"}}, "batches_per_step": 7}
    sources = Sources(template=template, cluster_storage=STORAGE)
    result = resolve(MINIMAL, sources, name="n", seed=1)
    assert result.config.environment.image.cuda == "cuda-image"
    assert result.config.scheduling_unit == 7
    assert "template: batches_per_step is now called scheduling_unit" in result.warnings
