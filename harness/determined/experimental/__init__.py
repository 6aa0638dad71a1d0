"""The Python SDK (`client`) and unmanaged experiments (`core_v2`), loaded when they are used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from determined.experimental import client
    from determined.experimental.client import (
        Checkpoint,
        Determined,
        Experiment,
        Model,
        ModelOrderBy,
        ModelSortBy,
        ModelVersion,
        OrderBy,
        Project,
        Trial,
        TrialOrderBy,
        TrialSortBy,
    )

__all__ = [
    "Checkpoint",
    "Determined",
    "Experiment",
    "Model",
    "ModelOrderBy",
    "ModelSortBy",
    "ModelVersion",
    "OrderBy",
    "Project",
    "Trial",
    "TrialOrderBy",
    "TrialSortBy",
    "client",
]
# Older names of the classes.
_RENAMED = {"ExperimentReference": "Experiment", "TrialReference": "Trial"}


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("client", "core_v2"):
        return importlib.import_module(f"determined.experimental.{name}")
    if name == "test_one_batch":
        return importlib.import_module("determined.experimental._one_batch").test_one_batch
    if name in __all__ or name in _RENAMED:
        client_module = importlib.import_module("determined.experimental.client")
        return getattr(client_module, _RENAMED.get(name, name))
    raise AttributeError(f"module 'determined.experimental' has no attribute {name!r}")
