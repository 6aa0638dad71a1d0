"""Interpreters with machine-learning frameworks: each in a virtual environment of its own."""

import functools
import os
import pathlib
import subprocess
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parents[2]


@functools.cache
def require(name: str) -> str:
    """The interpreter that has a framework; made on first use, which takes minutes."""
    made = subprocess.run(
        [str(ROOT / "scripts" / "ml-venv"), name], stdout=subprocess.PIPE, text=True, check=True
    )
    return made.stdout.strip()


def environment(home: pathlib.Path) -> dict[str, str]:
    """Off-cluster, with a user data directory of its own and few threads."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DET_", "COV_"))}
    # Where scripts/ml-venv compiled what DeepSpeed needs.
    extensions = ROOT / ".venvs" / "deepspeed" / "torch-extensions"
    own = {"HOME": str(home), "XDG_DATA_HOME": str(home / "share"), "OMP_NUM_THREADS": "1"}
    return {**kept, **own, "TF_CPP_MIN_LOG_LEVEL": "3", "TORCH_EXTENSIONS_DIR": str(extensions)}


def run(
    name: str, arguments: Sequence[str], home: pathlib.Path, timeout_s: float = 300, **env: str
) -> str:
    """Run a script with a framework; return its output, or fail with it."""
    done = subprocess.run(
        [require(name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={
            **environment(home),
            **env,
            "PATH": f"{pathlib.Path(require(name)).parent}:{os.environ['PATH']}",
        },
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, (
        f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}"
    )
    return done.stdout


def run_pytest(name: str, path: str, home: pathlib.Path, timeout_s: float = 300) -> str:
    """Run a file of tests in the interpreter of a framework.

    The conftest of all tests imports the control plane, which such an environment does not have.
    """
    folder = str(pathlib.Path(path).parent)
    arguments = ["-m", "pytest", "--confcutdir", folder, "-p", "no:xdist", "-x", path]
    return run(name, arguments, home, timeout_s)
