"""Configurations of notebooks, shells, commands and TensorBoards."""

from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.config import (
    ClusterConfig,
    InvalidConfig,
    Sources,
    TaskConfig,
    load_cluster,
    load_yaml,
    resolve_task,
    task_sources_of,
)
from det_controlplane.core.lifecycle.task import TaskKind

NOTHING = Sources()


def problems(kind: TaskKind, raw: Any) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as error:
        resolve_task(kind, raw, NOTHING, name="calm-red-fox")
    assert f"invalid {kind.value.lower()} configuration" in str(error.value)
    return {problem.path: problem.message for problem in error.value.problems}


@pytest.mark.parametrize(
    ("kind", "description", "slots"),
    [
        (TaskKind.NOTEBOOK, "JupyterLab (fox)", 1),
        (TaskKind.SHELL, "Shell (fox)", 1),
        (TaskKind.TENSORBOARD, "TensorBoard (fox)", 0),
    ],
)
def test_empty_configuration_has_description_and_slots_of_its_kind(
    kind: TaskKind, description: str, slots: int
) -> None:
    config = resolve_task(kind, {}, NOTHING, name="fox").config
    assert (config.description, config.resources.slots) == (description, slots)
    assert config.notebook_idle_type == "kernels_or_terminals"


def test_a_tensorboard_never_takes_slots() -> None:
    config = resolve_task(
        TaskKind.TENSORBOARD, {"resources": {"slots": 4}}, NOTHING, name="fox"
    ).config
    assert config.resources.slots == 0


def test_arguments_of_a_command_are_not_changed() -> None:
    config = resolve_task(
        TaskKind.COMMAND, {"entrypoint": ["ls", "a b"]}, NOTHING, name="fox"
    ).config
    assert config.to_json()["entrypoint"] == ["ls", "a b"]


def test_user_overrides_defaults_of_the_pool() -> None:
    cluster = load_cluster(
        {
            "task_container_defaults": {
                "image": "i",
                "work_dir": "/w",
                "environment_variables": ["A=1", "B=1"],
            }
        }
    )
    sources = task_sources_of(cluster, cluster.resource_pools[0])
    raw = {"environment": {"environment_variables": ["A=2"]}}
    config = resolve_task(TaskKind.SHELL, raw, sources, name="fox").config
    assert config.environment.image.cuda == "i"
    assert config.environment.environment_variables.cpu == ("B=1", "A=2")
    assert (config.work_dir, config.resources.priority) == ("/w", 42)
    assert config.resources.shm_size == 4 * 1024**3


def test_resolved_task_can_be_loaded_and_resolved_again() -> None:
    cluster = ClusterConfig()
    sources = task_sources_of(cluster, cluster.resource_pools[0])
    config = resolve_task(TaskKind.NOTEBOOK, {"idle_timeout": "1h30m"}, sources, name="fox").config
    assert config.idle_timeout == 5400.0
    assert TaskConfig.load(config.to_json()) == config
    assert resolve_task(TaskKind.NOTEBOOK, config.to_json(), NOTHING, name="x").config == config


@pytest.mark.parametrize(
    ("kind", "raw", "path", "said"),
    [
        (TaskKind.GENERIC, {}, "entrypoint", "is required"),
        (TaskKind.COMMAND, {"entrypoint": []}, "entrypoint", "at least one argument"),
        (
            TaskKind.SHELL,
            {"resources": {"is_single_node": True}},
            "resources.is_single_node",
            "one agent",
        ),
        (
            TaskKind.SHELL,
            {"resources": {"slots_per_trial": 1}},
            "resources.slots_per_trial",
            "'slots'?",
        ),
        (TaskKind.NOTEBOOK, {"idle_timeout": "soon"}, "idle_timeout", "25s, 10m or 1h30m"),
        (
            TaskKind.NOTEBOOK,
            {"notebook_idle_type": "never"},
            "notebook_idle_type",
            "must be one of",
        ),
        (TaskKind.NOTEBOOK, {"searcher": {}}, "searcher", "is unknown"),
        (
            TaskKind.COMMAND,
            {"entrypoint": ["a"], "idle_timeout": "1h"},
            "idle_timeout",
            "notebooks, shells",
        ),
        (
            TaskKind.SHELL,
            {"notebook_idle_type": "activity"},
            "notebook_idle_type",
            "for notebooks only",
        ),
        (TaskKind.NOTEBOOK, {"preemption_timeout": 9}, "preemption_timeout", "for generic tasks"),
        (
            TaskKind.SHELL,
            {"tensorboard_args": ["--x"]},
            "tensorboard_args",
            "for TensorBoards only",
        ),
        (TaskKind.NOTEBOOK, [], "", "must be an object"),
    ],
)
def test_rejects_wrong_task_configuration(kind: TaskKind, raw: Any, path: str, said: str) -> None:
    assert said in problems(kind, raw)[path]


def test_error_for_unknown_key_lists_keys_of_the_task_kind() -> None:
    keys = "bind_mounts, debug, description, entrypoint, environment"
    of_kinds = {
        TaskKind.COMMAND: ", resources, work_dir",
        TaskKind.NOTEBOOK: ", idle_timeout, notebook_idle_type, resources, work_dir",
        TaskKind.SHELL: ", idle_timeout, resources, work_dir",
        TaskKind.TENSORBOARD: ", idle_timeout, resources, tensorboard_args, work_dir",
        TaskKind.GENERIC: ", preemption_timeout, resources, work_dir",
    }
    for kind, others in of_kinds.items():
        message = problems(kind, {"colour": 1, "entrypoint": ["a"]})["colour"]
        assert message == f"is unknown; allowed here: {keys}{others}"


def test_printed_configuration_can_be_launched_again() -> None:
    first = resolve_task(TaskKind.SHELL, {}, Sources(), name="fox").config
    assert resolve_task(TaskKind.SHELL, first.to_json(), Sources(), name="elk").config == first


@pytest.mark.parametrize(
    "kind",
    [TaskKind.NOTEBOOK, TaskKind.SHELL, TaskKind.COMMAND, TaskKind.TENSORBOARD, TaskKind.GENERIC],
)
def test_shown_configuration_has_only_keys_of_its_kind(kind: TaskKind) -> None:
    json_value = resolve_task(kind, {"entrypoint": ["a"]}, NOTHING, name="fox").config.of_kind(kind)
    message = problems(kind, {"colour": 1, "entrypoint": ["a"]})["colour"]
    assert sorted(json_value) == message.removeprefix("is unknown; allowed here: ").split(", ")
    resolve_task(kind, json_value, NOTHING, name="elk")


def test_template_keys_for_other_task_kinds_are_ignored() -> None:
    template = {"idle_timeout": "1h", "entrypoint": ["sleep", "9"]}
    resolve_task(TaskKind.COMMAND, {}, Sources(template=template), name="fox")


@pytest.mark.parametrize(
    ("kind", "port"), [(TaskKind.NOTEBOOK, "NOTEBOOK_PORT"), (TaskKind.SHELL, "SHELL_PORT")]
)
def test_own_entrypoint_of_a_serving_task_causes_a_warning(kind: TaskKind, port: str) -> None:
    (warning,) = resolve_task(kind, {"entrypoint": ["mine"]}, NOTHING, name="fox").warnings
    assert warning.startswith("entrypoint runs in place of ")
    assert port in warning
    assert resolve_task(kind, {}, NOTHING, name="fox").warnings == ()
    assert (
        resolve_task(TaskKind.COMMAND, {"entrypoint": ["mine"]}, NOTHING, name="fox").warnings == ()
    )


@pytest.mark.parametrize("kind", [TaskKind.NOTEBOOK, TaskKind.SHELL, TaskKind.TENSORBOARD])
def test_serving_task_ignores_entrypoint_of_a_template(
    kind: TaskKind,
) -> None:
    sources = Sources(template={"entrypoint": "python3 train.py"})
    assert resolve_task(kind, {}, sources, name="fox").config.entrypoint is None


def test_tasks_ignore_experiment_keys_of_a_template() -> None:
    template = {
        "resources": {"slots": 2, "slots_per_trial": 8, "shm_size": "1g"},
        "searcher": {"name": "single", "metric": "loss"},
        "max_restarts": 1,
    }
    sources = Sources(template=template)
    resources = resolve_task(TaskKind.NOTEBOOK, {}, sources, name="fox").config.resources
    assert (resources.slots, resources.shm_size) == (2, 1024**3)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (TaskKind.NOTEBOOK, "interactive/notebook.yaml"),
        (TaskKind.TENSORBOARD, "interactive/tensorboard.yaml"),
        (TaskKind.GENERIC, "generic_tasks/tree.yaml"),
    ],
)
def test_the_examples_of_tasks_are_accepted(kind: TaskKind, path: str) -> None:
    text = (Path(__file__).resolve().parents[3] / "examples" / path).read_text()
    task = resolve_task(kind, load_yaml(text), NOTHING, name="fox")
    assert task.warnings == ()
