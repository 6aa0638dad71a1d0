"""Hold the paths of storages within the places that they name. No models: what only reads imports it, too."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from det_controlplane.core.problems import Problem


def leading_out(storage: Mapping[str, Any], section: str = "") -> Iterator[Problem]:
    """Yield the paths of a storage that leave the place that it names."""
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
