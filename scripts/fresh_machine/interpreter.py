"""Which Python a machine has."""

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


def find_interpreter(wanted: str) -> Interpreter:
    """Find a Python by its version or path. One of a virtual environment stands for the Python that it is of."""
    for candidate in _candidates(wanted):
        try:
            answer = subprocess.run([candidate, "-c", _ASK], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            # Version managers leave names behind that do not run.
            continue
        program, prefix = json.loads(answer.stdout)
        return Interpreter(Path(program), Path(prefix))
    raise Failed(f"there is no Python {wanted}: install it, or name its path with --python")


def _candidates(wanted: str) -> Iterator[str]:
    if "/" in wanted:
        yield str(Path(wanted).absolute())
        return
    yield f"python{wanted}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob(f"versions/{wanted}.*/bin/python{wanted}")))
