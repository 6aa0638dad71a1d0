"""The packages that are mounted read-only into tasks: the harness, the `det` command and libraries."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

HARNESS_DIR = "/opt/determined/harness"
DEPS_DIR = "/opt/determined/deps"
# The harness, and the command that `python3 -m determined.cli` and `det` run in tasks.
_PACKAGES = ("determined", "det_cli")
# Pure Python libraries, which work with any interpreter: lazy imports of the harness, and the dependencies of
# Determined's own package. Compiled packages (numpy, psutil…) come from the image.
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
    """The packages of this product by name, and dependencies by their paths below the dependency directory."""

    packages: dict[str, Path]
    dependencies: dict[str, Path]


def find_payload() -> Payload:
    """Find the packages in the agent's own environment. Missing dependencies are skipped."""
    packages = {name: path for name in _PACKAGES if (path := _location(name)) is not None}
    missing = [name for name in _PACKAGES if name not in packages]
    if missing:
        raise RuntimeError(f"the agent's environment lacks the package {missing[0]}: reinstall it")
    locations = {name: _location(name) for name in _DEPENDENCIES}
    return Payload(packages, {_place(n, p): p for n, p in locations.items() if p is not None})


def link_payload(payload: Payload, folder: Path) -> tuple[Path, Path]:
    """Create two folders with links to the payload for processes, which see this machine's files."""
    harness, deps = folder / "harness", folder / "deps"
    for name, path in payload.packages.items():
        _link(harness / name, path)
    for place, path in payload.dependencies.items():
        _link(deps / place, path)
    return harness, deps


def _place(name: str, path: Path) -> str:
    """Return the relative path of a package or module: `ruamel/yaml`, `six.py`."""
    return "/".join((*name.split(".")[:-1], path.name))


def _location(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        # The parent package is missing.
        return None
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)
