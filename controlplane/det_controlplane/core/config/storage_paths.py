"""Check that the paths of a storage stay within it. This module imports no models, so it is cheap to import."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from det_controlplane.core.problems import Problem


def escaping_paths(storage: Mapping[str, Any], section: str = "") -> Iterator[Problem]:
    """Yield a problem for each path that leaves its storage."""
    for field in ("storage_path", "prefix"):
        path = storage.get(field)
        if isinstance(path, str) and ".." in PurePosixPath(path).parts:
            yield Problem(section + field, f"must not contain '..', but is {path!r}")
    host_path, path = storage.get("host_path"), storage.get("storage_path")
    if not (isinstance(host_path, str) and isinstance(path, str)):
        return
    inner = PurePosixPath(path)
    if inner.is_absolute() and not inner.is_relative_to(host_path):
        message = f"must be relative or lie below host_path ({host_path})"
        yield Problem(f"{section}storage_path", f"{message}, not {path!r}")
