"""The interpreter of scripts/peer-venv, with other projects' programs that tests play against the API."""

import functools
import subprocess

from tests.support.ml import ROOT


@functools.cache
def peer_python() -> str:
    """Return the interpreter, after `scripts/peer-venv` has made its environment."""
    script = ROOT / "scripts" / "peer-venv"
    result = subprocess.run([str(script)], stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout.strip()
