"""Modules that the command and the agent share with the harness, and names that older scripts import from here."""

import logging
from typing import Any

from determined import LOG_FORMAT


def set_logger(debug_enabled: bool) -> None:
    """Log to standard error in Determined's format. Include debug messages if `debug_enabled` is true."""
    level = logging.DEBUG if debug_enabled else logging.INFO
    logging.basicConfig(level=level, format=LOG_FORMAT)


def __getattr__(name: str) -> Any:
    if name == "yaml":
        # Scripts for the first versions read configurations with `determined.common.yaml.YAML`.
        import ruamel.yaml

        return ruamel.yaml
    raise AttributeError(f"module 'determined.common' has no attribute {name!r}")
