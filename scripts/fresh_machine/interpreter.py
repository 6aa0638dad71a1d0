"""The Python of a machine."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fresh_machine.system import Failed

_ASK = "import json, sys; print(json.dumps([sys._base_executable, sys.base_prefix]))"


@dataclass(frozen=True)
class Interpreter:
    program: Path
    prefix: Path


def find_interpreter(version_or_path: str) -> Interpreter:
    """Return the Python with a version or path. For a virtual environment, return its base Python."""
    for candidate in _candidates(version_or_path):
        try:
            answer = subprocess.run([candidate, "-c", _ASK], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            # Version managers leave commands that do not run.
            continue
        program, prefix = json.loads(answer.stdout)
        return Interpreter(Path(program), Path(prefix))
    raise Failed(
        f"there is no Python {version_or_path}: install it, or name its path with --python"
    )


def _candidates(version_or_path: str) -> Iterator[str]:
    if "/" in version_or_path:
        yield str(Path(version_or_path).absolute())
        return
    yield f"python{version_or_path}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(
        str, sorted(pyenv.glob(f"versions/{version_or_path}.*/bin/python{version_or_path}"))
    )
