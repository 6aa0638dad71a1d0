"""The configuration of notebooks, shells, commands, TensorBoards and generic tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.config.environment import BindMount, Device, Environment, Resources
from det_controlplane.core.config.experiment import ExperimentConfig
from det_controlplane.core.config.fields import (
    Bytes,
    Natural,
    Priority,
    StrictModel,
    Weight,
    refuse,
)
from det_controlplane.core.config.layers import merge
from det_controlplane.core.config.legacy import shim
from det_controlplane.core.config.messages import problems_of
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.config.resolution import Raw, Sources, sources_of
from det_controlplane.core.config.sizes import seconds_of
from det_controlplane.core.config.text import json_problems
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.core.problems import InvalidConfig, Problem, shown

_DEFAULT_NAMES = {
    TaskKind.NOTEBOOK: "JupyterLab",
    TaskKind.SHELL: "Shell",
    TaskKind.COMMAND: "Command",
    TaskKind.TENSORBOARD: "TensorBoard",
    TaskKind.GENERIC: "Task",
}
_RUN_BY_USER = (TaskKind.COMMAND, TaskKind.GENERIC)
# The default programs of the other kinds. A user's own program must serve on the port in the variable below.
_SERVED = {
    TaskKind.NOTEBOOK: "JupyterLab",
    TaskKind.SHELL: "OpenSSH's server",
    TaskKind.TENSORBOARD: "TensorBoard",
}
_PORTS = {
    TaskKind.NOTEBOOK: "NOTEBOOK_PORT",
    TaskKind.SHELL: "SHELL_PORT",
    TaskKind.TENSORBOARD: "TENSORBOARD_PORT",
}
# Keys that only some kinds have, with the names of these kinds for messages.
_KEYS_OF_KINDS: dict[str, tuple[tuple[TaskKind, ...], str]] = {
    "idle_timeout": (tuple(_SERVED), "notebooks, shells and TensorBoards"),
    "notebook_idle_type": ((TaskKind.NOTEBOOK,), "notebooks"),
    "preemption_timeout": ((TaskKind.GENERIC,), "generic tasks (`det task create`)"),
    "tensorboard_args": ((TaskKind.TENSORBOARD,), "TensorBoards"),
}


def _words(raw: Any) -> Any:
    words = [raw] if isinstance(raw, str) else raw
    if (
        not isinstance(words, list | tuple)
        or not words
        or not all(isinstance(w, str) for w in words)
    ):
        raise ValueError("must be a list of at least one argument, all text")
    return tuple(words)


IdleType = Literal["kernels_or_terminals", "kernel_connections", "activity"]
Seconds = Annotated[float, Field(ge=0, le=10 * 365 * 86400), BeforeValidator(seconds_of)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class TaskResources(StrictModel):
    devices: tuple[Device, ...] = Field((), strict=False)
    is_single_node: bool | None = None
    max_slots: Natural | None = None
    priority: Priority | None = None
    resource_pool: str = ""
    shm_size: Bytes | None = None
    slots: Natural = 1
    weight: Weight = 1

    @model_validator(mode="after")
    def _runs_on_one_agent(self) -> "TaskResources":
        if self.is_single_node is not None:
            refuse(
                [Problem("is_single_node", "must not be set; this task always runs on one agent")]
            )
        return self


class TaskConfig(StrictModel):
    description: str
    bind_mounts: tuple[BindMount, ...] = Field((), strict=False)
    debug: bool = False
    entrypoint: Words | None = None
    environment: Environment = Environment.model_construct()
    idle_timeout: Seconds | None = None
    notebook_idle_type: IdleType = "kernels_or_terminals"
    preemption_timeout: Natural | None = None
    resources: TaskResources = TaskResources.model_construct()
    tensorboard_args: tuple[str, ...] = Field((), strict=False)
    work_dir: str | None = None

    @classmethod
    def load(cls, resolved: Mapping[str, Any]) -> "TaskConfig":
        """Read a configuration that `to_json` wrote."""
        try:
            return cls.model_validate(resolved)
        except ValidationError as error:
            raise InvalidConfig(problems_of(error, cls), what="task configuration") from error

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def of_kind(self, kind: TaskKind) -> dict[str, Any]:
        """Return the configuration without keys that only other kinds of tasks have."""
        return self.model_dump(mode="json", exclude=set(_keys_of_other_kinds(kind)))


@dataclass(frozen=True, slots=True)
class ResolvedTask:
    config: TaskConfig
    warnings: tuple[str, ...]


def task_sources_of(cluster: ClusterConfig, pool: Pool, *, template: Raw | None = None) -> Sources:
    """Return the sources for configurations of tasks other than trials in a pool of the cluster."""
    sources = sources_of(cluster, pool, template=template)
    defaults = pool.task_container_defaults or cluster.task_container_defaults
    return Sources(
        template=template,
        pool_task_defaults=defaults.task_fragment(),
        default_priority=sources.default_priority,
    )


def resolve_task(kind: TaskKind, submitted: Raw, sources: Sources, *, name: str) -> ResolvedTask:
    """Merge the sources, add defaults and check the result. `name` becomes part of a missing description."""
    what = f"{kind.value.lower()} configuration"
    document, warnings = _merge_layers(kind, submitted, sources, name, what)
    problems = []
    # A command without an entrypoint only runs the startup hook.
    if kind is TaskKind.GENERIC and document.get("entrypoint") is None:
        problems.append(
            Problem("entrypoint", "is required: the command to run, as a list of arguments")
        )
    try:
        config = TaskConfig.model_validate(document)
    except ValidationError as error:
        task_problems = problems_of(error, TaskConfig, without=_keys_of_other_kinds(kind))
        raise InvalidConfig(task_problems + problems, what=what) from error
    problems += _of_other_kinds(kind, submitted, config)
    if problems:
        raise InvalidConfig(problems, what=what)
    if config.entrypoint and kind in _PORTS:
        instead = f"runs in place of {_SERVED[kind]}: nothing opens unless it serves on the port of {_PORTS[kind]}"
        warnings.append(f"entrypoint {instead}")
    return ResolvedTask(config, tuple(warnings))


def _keys_of_other_kinds(kind: TaskKind) -> list[str]:
    return [key for key, (kinds, _) in _KEYS_OF_KINDS.items() if kind not in kinds]


def _of_other_kinds(kind: TaskKind, submitted: Raw, config: TaskConfig) -> list[Problem]:
    """Return problems for keys of other kinds. Templates and defaults in printed configurations are accepted."""
    return [
        Problem(key, f"is for {_KEYS_OF_KINDS[key][1]} only")
        for key in _keys_of_other_kinds(kind)
        if submitted.get(key) is not None
        and getattr(config, key) != TaskConfig.model_fields[key].default
    ]


def _merge_layers(
    kind: TaskKind, submitted: Any, sources: Sources, name: str, what: str
) -> tuple[dict[str, Any], list[str]]:
    problems = json_problems(submitted)
    if not isinstance(submitted, Mapping):
        problems = [Problem("", f"the configuration must be an object, not {shown(submitted)}")]
    if problems:
        raise InvalidConfig(problems, what=what)
    config, warnings = shim(submitted)
    defaults = sources.pool_task_defaults or sources.cluster_task_defaults
    own: dict[str, Any] = {
        "description": f"{_DEFAULT_NAMES[kind]} ({name})",
        "resources": {"priority": sources.default_priority},
    }
    for low in (_of_tasks(kind, sources.template), defaults, own):
        config = merge(config, shim(low)[0]) if low else config
    if kind is TaskKind.TENSORBOARD and isinstance(config["resources"], dict):
        config["resources"] = config["resources"] | {"slots": 0}
    return config, warnings


def _of_tasks(kind: TaskKind, template: Raw | None) -> Raw | None:
    """Return the template without the keys of experiments. Only commands and generic tasks keep the entrypoint."""
    if template is None:
        return None
    of_experiments = ExperimentConfig.model_fields.keys() - TaskConfig.model_fields.keys()
    if kind not in _RUN_BY_USER:
        of_experiments = of_experiments | {"entrypoint"}
    part = {key: value for key, value in template.items() if key not in of_experiments}
    if isinstance(resources := part.get("resources"), Mapping):
        of_trials = Resources.model_fields.keys() - TaskResources.model_fields.keys()
        part["resources"] = {k: v for k, v in resources.items() if k not in of_trials}
    return part
