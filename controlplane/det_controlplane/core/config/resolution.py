"""Resolve a submitted configuration (docs/reference/experiment-config.md)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from det_controlplane.core import hparams
from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.config.data_sets import data_set_problems
from det_controlplane.core.config.experiment import ExperimentConfig
from det_controlplane.core.config.experiment_sections import BUILT_IN_LOG_POLICIES
from det_controlplane.core.config.layers import merge
from det_controlplane.core.config.legacy import shim
from det_controlplane.core.config.messages import problems_of
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.config.searchers import MAX_TRIALS
from det_controlplane.core.config.text import json_problems
from det_controlplane.core.problems import InvalidConfig, Problem, shown

Raw = Mapping[str, Any]
# Relative paths of mounts are below it, unless the cluster sets another work directory.
WORK_DIR = "/run/determined/workdir"


@dataclass(frozen=True, slots=True)
class Sources:
    """The configurations and defaults that are merged with a submitted configuration."""

    template: Raw | None = None
    # Fragments of an experiment configuration, see TaskContainerDefaults.experiment_fragment().
    pool_task_defaults: Raw | None = None
    cluster_task_defaults: Raw | None = None
    workspace_storage: Raw | None = None
    cluster_storage: Raw | None = None
    default_priority: int | None = None
    # Each policy overrides the policies before it. The workspace's policy comes first, then the cluster's.
    invariant_policies: tuple[Raw, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    config: ExperimentConfig
    warnings: tuple[str, ...]


def resolve(
    submitted: Raw, sources: Sources, *, name: str, seed: int, managed: bool = True
) -> Resolved:
    """Merge the sources, add defaults and check the result. Raises InvalidConfig with all problems.

    `name` and `seed` are the defaults for missing values. An unmanaged experiment needs no entrypoint, because its code
    runs outside the cluster.
    """
    _refuse_non_json(submitted, sources)
    document, warnings = _merge_layers(submitted, sources, name, seed)
    problems = list(_problems_between_sections(document, managed))
    document.pop("internal", None)
    try:
        config = ExperimentConfig.model_validate(document)
    except ValidationError as error:
        raise InvalidConfig(problems_of(error, ExperimentConfig) + problems) from error
    if problems:
        raise InvalidConfig(problems)
    return Resolved(config, (*warnings, *_doubts(config)))


def sources_of(
    cluster: ClusterConfig,
    pool: Pool,
    *,
    template: Raw | None = None,
    workspace_storage: Raw | None = None,
    invariant_policies: tuple[Raw, ...] = (),
) -> Sources:
    """Return the sources for configurations of experiments in a pool of the cluster."""
    defaults = pool.task_container_defaults
    scheduler = pool.scheduler
    return Sources(
        template=template,
        pool_task_defaults=defaults.experiment_fragment() if defaults else None,
        cluster_task_defaults=cluster.task_container_defaults.experiment_fragment(),
        workspace_storage=workspace_storage,
        cluster_storage=cluster.checkpoint_storage,
        default_priority=scheduler.default_priority if scheduler.type == "priority" else None,
        invariant_policies=invariant_policies,
    )


def _refuse_non_json(submitted: Any, sources: Sources) -> None:
    problems = list(json_problems(submitted))
    if not isinstance(submitted, Mapping):
        problems = [Problem("", f"the configuration must be an object, not {shown(submitted)}")]
    if sources.template is not None:
        problems.extend(
            Problem(f"template.{p.path}", p.message) for p in json_problems(sources.template)
        )
    if problems:
        raise InvalidConfig(problems)


def _merge_layers(
    submitted: Raw, sources: Sources, name: str, seed: int
) -> tuple[dict[str, Any], list[str]]:
    config, warnings = shim(submitted)
    if sources.template is not None:
        template, about_template = shim(sources.template)
        template = _without_task_slots(template)
        config = merge(config, template)
        warnings += [f"template: {warning}" for warning in about_template]
    defaults = sources.pool_task_defaults
    for low in (
        sources.cluster_task_defaults if defaults is None else defaults,
        _storage(sources.workspace_storage),
        _storage(sources.cluster_storage),
    ):
        config = merge(config, shim(low)[0]) if low else config
    config = merge(config, _defaults(sources.default_priority, name, seed))
    for policy in sources.invariant_policies:
        config = merge(shim(policy)[0], config)
    return config, warnings


def _without_task_slots(template: dict[str, Any]) -> dict[str, Any]:
    """Remove `slots`, which only notebooks and other tasks have. They may share a template with experiments."""
    resources = template.get("resources")
    if not isinstance(resources, dict):
        return template
    return template | {"resources": {k: v for k, v in resources.items() if k != "slots"}}


def _storage(storage: Raw | None) -> Raw | None:
    return None if storage is None else {"checkpoint_storage": dict(storage)}


def _defaults(priority: int | None, name: str, seed: int) -> Raw:
    return {
        "name": name,
        "reproducibility": {"experiment_seed": seed},
        "resources": {"priority": priority},
        "log_policies": [dict(policy) for policy in BUILT_IN_LOG_POLICIES],
    }


def _problems_between_sections(config: Raw, managed: bool) -> Iterator[Problem]:
    if managed and config.get("entrypoint") is None:
        yield Problem(
            "entrypoint", "is required: the command that trains, for example 'python3 train.py'"
        )
    for one, other in (("workspace", "project"), ("project", "workspace")):
        if config.get(one) and not config.get(other):
            yield Problem(other, f"is required when {one} is given")
    yield from data_set_problems(
        config.get("data"), config.get("bind_mounts"), config.get("checkpoint_storage"), WORK_DIR
    )
    yield from _problems_of_elastic_trial(config.get("resources"), config.get("entrypoint"))
    if config.get("internal") is not None:
        yield Problem("internal", "must not be set; the native API was removed")
    yield from _repeated_names(config.get("log_policies"))
    searcher = config.get("searcher")
    if isinstance(searcher, dict) and searcher.get("name") == "grid":
        yield from _problems_of_grid(config.get("hyperparameters"))


def _problems_of_elastic_trial(resources: Any, entrypoint: Any) -> Iterator[Problem]:
    """Refuse Horovod, which keeps the number of its ranks."""
    is_elastic = isinstance(resources, dict) and resources.get("min_slots_per_trial") is not None
    words = " ".join(map(str, entrypoint)) if isinstance(entrypoint, list) else str(entrypoint)
    if is_elastic and "horovod" in words:
        message = (
            "cannot be used with Horovod, which does not change its number of ranks; start the program by"
            " determined.launch.torch_distributed, or remove min_slots_per_trial"
        )
        yield Problem("resources.min_slots_per_trial", message)


def _repeated_names(policies: Any) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, policy in enumerate(policies if isinstance(policies, list) else ()):
        name = policy.get("name") if isinstance(policy, dict) else None
        if isinstance(name, str) and first.setdefault(name, index) != index:
            message = f"{name!r} is already the name of log_policies[{first[name]}]"
            yield Problem(f"log_policies[{index}].name", message)


def _problems_of_grid(raw: Any) -> Iterator[Problem]:
    space, problems = hparams.parse(raw or {})
    if problems:
        return  # the check of the section reports them
    yield from hparams.grid_problems(space)
    if (size := hparams.grid_size(space)) > MAX_TRIALS:
        message = f"the grid has {size} points, more than the limit of {MAX_TRIALS}; use random or fewer counts"
        yield Problem("hyperparameters", message)


def _doubts(config: ExperimentConfig) -> Iterator[str]:
    if isinstance(config.data, dict) and {"source", "at"} <= config.data.keys():
        yield "data is an object, so nothing is loaded: make it a list, with '- ' before source"
    for path in hparams.ranges_in_lists(config.hparam_space()):
        yield f"{path} is in a list, which is a constant: nothing is sampled there"
    resources = config.resources
    if resources.max_slots is not None and resources.max_slots < resources.slots_per_trial:
        yield (
            f"resources.max_slots ({resources.max_slots}) is less than slots_per_trial "
            f"({resources.slots_per_trial}): no trial will run until it is raised"
        )
