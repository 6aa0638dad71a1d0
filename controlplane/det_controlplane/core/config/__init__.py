"""The experiment configuration: reading, merging, defaults and checks.

Names are imported when they are first used, because reading YAML or naming an experiment needs no model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from det_controlplane.core.problems import InvalidConfig, Problem

if TYPE_CHECKING:
    from det_controlplane.core.config.cluster import ClusterConfig, load_cluster
    from det_controlplane.core.config.experiment import ExperimentConfig
    from det_controlplane.core.config.fragments import fragment_problems, with_template_name
    from det_controlplane.core.config.layers import merge
    from det_controlplane.core.config.legacy import shim
    from det_controlplane.core.config.names import petname
    from det_controlplane.core.config.resolution import Resolved, Sources, resolve, sources_of
    from det_controlplane.core.config.tasks import (
        ResolvedTask,
        TaskConfig,
        resolve_task,
        task_sources_of,
    )
    from det_controlplane.core.config.text import load_yaml

_HOMES = {
    "ClusterConfig": "cluster",
    "load_cluster": "cluster",
    "ExperimentConfig": "experiment",
    "fragment_problems": "fragments",
    "with_template_name": "fragments",
    "shim": "legacy",
    "merge": "layers",
    "petname": "names",
    "Resolved": "resolution",
    "Sources": "resolution",
    "resolve": "resolution",
    "sources_of": "resolution",
    "load_yaml": "text",
    "ResolvedTask": "tasks",
    "TaskConfig": "tasks",
    "resolve_task": "tasks",
    "task_sources_of": "tasks",
}

__all__ = [
    "ClusterConfig",
    "ExperimentConfig",
    "InvalidConfig",
    "Problem",
    "Resolved",
    "ResolvedTask",
    "Sources",
    "TaskConfig",
    "fragment_problems",
    "load_cluster",
    "load_yaml",
    "merge",
    "petname",
    "resolve",
    "resolve_task",
    "shim",
    "sources_of",
    "task_sources_of",
    "with_template_name",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
