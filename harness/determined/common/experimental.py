"""The SDK under an older import path. See `determined.experimental.client`."""

import sys
from typing import Any, List

from determined import experimental
from determined.experimental import client

# Scripts import classes from submodules such as `determined.common.experimental.experiment`.
__path__: List[str] = []
_MODULES = (
    "checkpoint", "determined", "experiment", "metrics", "model", "project", "resource_pool", "trial", "user",
    "workspace",
)  # fmt: skip
for _name in _MODULES:
    sys.modules[f"{__name__}.{_name}"] = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    return getattr(client if hasattr(client, name) else experimental, name)
