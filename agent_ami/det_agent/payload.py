"""The harness and its few dependencies, lent read-only to containers: nothing is installed when a task starts."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

HARNESS_DIR = "/opt/determined/harness"
DEPS_DIR = "/opt/determined/deps"
# What the harness imports lazily and a user's image may lack: pure Python, good for any interpreter of the image.
_DEPENDENCIES = (
    "boto3",
    "botocore",
    "s3transfer",
    "jmespath",
    "dateutil",
    "urllib3",
    "six",
    "yaml",
    "pathspec",
)


@dataclass(frozen=True)
class Payload:
    harness: Path
    dependencies: dict[str, Path]


def find_payload() -> Payload:
    """Look in the agent's own environment; a dependency it lacks is simply not lent."""
    harness = _location("determined")
    if harness is None:
        raise RuntimeError("the agent's environment lacks the determined package: reinstall it")
    found = {name: _location(name) for name in _DEPENDENCIES}
    return Payload(harness, {n: path for n, path in found.items() if path is not None})


def link_payload(payload: Payload, folder: Path) -> tuple[Path, Path]:
    """Make two folders of links to the payload, for processes, which see this machine's files."""
    harness, deps = folder / "harness", folder / "deps"
    _link(harness / "determined", payload.harness)
    for path in payload.dependencies.values():
        _link(deps / path.name, path)
    return harness, deps


def _location(name: str) -> Path | None:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        return None
    origin = Path(found.origin)
    return origin.parent if origin.name == "__init__.py" else origin


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)
