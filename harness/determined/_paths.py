"""Paths of a task's files. They are fixed in a container; a process task reads them from the environment."""

import json
import os
import pathlib
from typing import Dict


def run_dir() -> str:
    return os.environ.get("DET_RUN_DIR") or "/run/determined"


def info_dir() -> str:
    return os.path.join(run_dir(), "info")


def _path_map() -> Dict[str, str]:
    raw = os.environ.get("DET_PATH_MAP")
    return json.loads(raw) if raw else {}


def on_host(container_path: str) -> str:
    """Translate a path inside the container to the path on this host, according to DET_PATH_MAP."""
    best = ""
    mapping = _path_map()
    for prefix in mapping:
        inside = container_path == prefix or container_path.startswith(prefix.rstrip("/") + "/")
        if inside and len(prefix) > len(best):
            best = prefix
    if not best:
        return container_path
    rest = container_path[len(best) :].lstrip("/")
    return os.path.join(mapping[best], rest) if rest else mapping[best]


def offline_dir() -> pathlib.Path:
    """Return the directory in which programs store files when they run outside of a cluster."""
    data_home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return pathlib.Path(data_home) / "determined"
