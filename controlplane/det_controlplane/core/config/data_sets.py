"""The list form of `data`: data sets that agents load before or while a trial runs (docs/guides/data.md).

Determined's `data` is an object with the user's own keys. The list is our extension."""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field

from det_controlplane.core.config.fields import AbsolutePath, StrictModel, kind_tag
from det_controlplane.core.datasets.sources import parse_source
from det_controlplane.core.problems import Problem

MOST_DATA_SETS = 16
# A mount at one of these, below them, or above them would hide the harness or the system of the container.
_HARNESS = ("/run/determined", "/opt/determined", "/determined_shared_fs")
_KERNEL = ("/dev", "/proc", "/sys")
_SYSTEM = (
    *("/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/root", "/run"),
    *("/sbin", "/tmp", "/usr", "/var"),
)


def _source(value: Any) -> Any:
    return str(parse_source(value)) if isinstance(value, str) else value


def _mount_point(value: Any) -> Any:
    return _checked_path(value) if isinstance(value, str) and value.startswith("/") else value


def _checked_path(value: str) -> str:
    path = posixpath.normpath("/" + value.lstrip("/"))
    if ".." in value.split("/"):
        raise ValueError("must not contain '..'")
    if any(ord(c) < 32 or c == ":" for c in value):
        raise ValueError("must not contain ':' or control characters")
    if path == "/" or path in _SYSTEM:
        raise ValueError(f"must not be {path}, which has files of the image; use for example /data")
    for own in (*_HARNESS, *_KERNEL):
        if overlap(path, own):
            raise ValueError(f"must not overlap with {own}; use for example /data")
    return path


class DataSet(StrictModel):
    source: Annotated[str, BeforeValidator(_source)]
    at: Annotated[AbsolutePath, BeforeValidator(_mount_point)]
    mode: Literal["cached", "stream"] = "cached"


def _form(raw: Any) -> str:
    return "·sets" if isinstance(raw, list | tuple) else "·own"


DataSets = Annotated[tuple[DataSet, ...], Field(strict=False, max_length=MOST_DATA_SETS)]
Data = Annotated[
    Annotated[DataSets, kind_tag("sets")] | Annotated[dict[str, Any], kind_tag("own")],
    Discriminator(_form),
]


def overlap(one: str, other: str) -> bool:
    """Return whether two absolute paths are equal, or one is inside of the other."""
    first, second = one.rstrip("/") + "/", other.rstrip("/") + "/"
    return first.startswith(second) or second.startswith(first)


def data_set_problems(data: Any, mounts: Any, storage: Any, work_dir: str) -> Iterator[Problem]:
    """Yield the collisions of mount points with each other, with `bind_mounts` and with checkpoint storage."""
    places = list(_places(data))
    for number, (path, at) in enumerate(places):
        for other_path, other in places[:number]:
            if overlap(at, other):
                yield Problem(path, f"{at} overlaps with {other} of {other_path}; choose another")
        for other_path, other in _mounted(mounts, storage, work_dir):
            if overlap(at, other):
                yield Problem(path, f"{at} overlaps with {other} of {other_path}; choose another")


def _places(data: Any) -> Iterator[tuple[str, str]]:
    for index, entry in enumerate(data if isinstance(data, list) else ()):
        at = entry.get("at") if isinstance(entry, dict) else None
        if isinstance(at, str) and at.startswith("/") and at.strip("/"):
            yield f"data[{index}].at", posixpath.normpath(at)


def _mounted(mounts: Any, storage: Any, work_dir: str) -> Sequence[tuple[str, str]]:
    result = []
    for index, mount in enumerate(mounts if isinstance(mounts, list) else ()):
        path = mount.get("container_path") if isinstance(mount, dict) else None
        if isinstance(path, str):
            absolute = posixpath.normpath(posixpath.join(work_dir, path))
            result.append((f"bind_mounts[{index}].container_path", absolute))
    if isinstance(storage, dict) and storage.get("type") == "directory":
        path = storage.get("container_path")
        if isinstance(path, str) and path.startswith("/"):
            result.append(("checkpoint_storage.container_path", posixpath.normpath(path)))
    return result
