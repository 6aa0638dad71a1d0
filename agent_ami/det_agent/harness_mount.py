"""The harness, and what programs for Determined import, lent read-only: nothing is installed when a task starts."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

HARNESS_DIR = "/opt/determined/harness"
DEPS_DIR = "/opt/determined/deps"
# Pure Python, good for any interpreter of the image: what the harness imports lazily, then what Determined's own
# package brings into tasks, with what that needs. Packages with compiled parts (numpy, psutil…) come from the image.
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
    "appdirs",
    "argcomplete",
    "certifi",
    "charset_normalizer",
    "docker",
    "filelock",
    "git",
    "gitdb",
    "idna",
    "lomond",
    "packaging",
    "pytz",
    "requests",
    "ruamel.yaml",
    "smmap",
    "tabulate",
    "termcolor",
    "tqdm",
)


@dataclass(frozen=True)
class Payload:
    """The harness, and dependencies by their places below the directory of dependencies."""

    harness: Path
    dependencies: dict[str, Path]


def find_payload() -> Payload:
    """Look in the agent's own environment; a dependency it lacks is simply not lent."""
    harness = _location("determined")
    if harness is None:
        raise RuntimeError("the agent's environment lacks the determined package: reinstall it")
    found = {name: _location(name) for name in _DEPENDENCIES}
    return Payload(harness, {_place(n, p): p for n, p in found.items() if p is not None})


def link_payload(payload: Payload, folder: Path) -> tuple[Path, Path]:
    """Make two folders of links to the payload, for processes, which see this machine's files."""
    harness, deps = folder / "harness", folder / "deps"
    _link(harness / "determined", payload.harness)
    for place, path in payload.dependencies.items():
        _link(deps / place, path)
    return harness, deps


def _place(name: str, path: Path) -> str:
    """Return where a package or a module belongs: `ruamel/yaml`, `six.py`."""
    return "/".join((*name.split(".")[:-1], path.name))


def _location(name: str) -> Path | None:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        # The package around it is missing.
        return None
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
