"""Parts of the harness that the command and the agent use as well, and names that older scripts import from here."""

import logging
from typing import Any

from determined import LOG_FORMAT


def set_logger(debug_enabled: bool) -> None:
    """Log to standard error in Determined's format, with debug messages if they are enabled."""
    level = logging.DEBUG if debug_enabled else logging.INFO
    logging.basicConfig(level=level, format=LOG_FORMAT)


def __getattr__(name: str) -> Any:
    if name == "yaml":
        # Scripts of the first versions read configurations by `determined.common.yaml.YAML`.
        import ruamel.yaml

        return ruamel.yaml
    raise AttributeError(f"module 'determined.common' has no attribute {name!r}")
