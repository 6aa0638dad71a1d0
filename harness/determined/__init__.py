"""Determined's training library. Importing it is cheap: every part is loaded at its first use."""

import os
import sys
from typing import TYPE_CHECKING, Any, Dict, List

__version__ = "0.38.1"
# Determined's own package lacks this name.
_DISTRIBUTION = "determined-serverless"

# The format of log lines; scripts pass it to `logging.basicConfig(format=...)`.
LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"

# Appended last, so that packages of the user's image take precedence over packages from the agent.
_deps_dir = os.environ.get("DET_DEPS_DIR")
if _deps_dir and _deps_dir not in sys.path:
    sys.path.append(_deps_dir)

if TYPE_CHECKING:
    from determined import constants, core, errors, util
    from determined._env_context import EnvContext
    from determined._experiment_config import ExperimentConfig
    from determined._import import import_from_path
    from determined._info import (
        ClusterInfo,
        RendezvousInfo,
        ResourcesInfo,
        TrialInfo,
        get_cluster_info,
    )
    from determined._trial import LegacyTrial, TrialContext, TrialController
    from determined.errors import InvalidHP

__all__ = [
    "LOG_FORMAT",
    "ClusterInfo",
    "EnvContext",
    "ExperimentConfig",
    "InvalidHP",
    "LegacyTrial",
    "RendezvousInfo",
    "ResourcesInfo",
    "TrialContext",
    "TrialController",
    "TrialInfo",
    "constants",
    "core",
    "errors",
    "get_cluster_info",
    "import_from_path",
    "util",
]

_NAMES: Dict[str, str] = {
    "ClusterInfo": "_info",
    "RendezvousInfo": "_info",
    "ResourcesInfo": "_info",
    "TrialInfo": "_info",
    "get_cluster_info": "_info",
    "EnvContext": "_env_context",
    "ExperimentConfig": "_experiment_config",
    "import_from_path": "_import",
    "InvalidHP": "errors",
    "LegacyTrial": "_trial",
    "TrialContext": "_trial",
    "TrialController": "_trial",
}
_MODULES = (
    "constants",
    "core",
    "data",
    "errors",
    "experimental",
    "keras",
    "launch",
    "lightning",
    "profiler",
    "pytorch",
    "searcher",
    "tensorboard",
    "transformers",
    "util",
)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"determined.{name}")
    if name in _NAMES:
        module = importlib.import_module(f"determined.{_NAMES[name]}")
        value = globals()[name] = getattr(module, name)
        return value
    raise AttributeError(f"module 'determined' has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted({*globals(), *_NAMES, *_MODULES})
