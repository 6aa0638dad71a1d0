"""Run Python with machine-learning frameworks, in the environments of scripts/ml-venv."""

import functools
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support import skips

ROOT = pathlib.Path(__file__).parents[2]
_VENVS = pathlib.Path(os.environ.get("DET_ML_VENVS") or ROOT / ".venvs")
# Where scripts/ml-venv compiled what DeepSpeed needs.
_EXTENSIONS = _VENVS / "ml" / "torch-extensions"
# How scripts/ml-venv ends where it cannot compile.
_NO_COMPILER = 3


@functools.cache
def require(name: str) -> str:
    """Return the interpreter that has a framework, after `scripts/ml-venv NAME` has made it."""
    result = subprocess.run(
        [str(ROOT / "scripts" / "ml-venv"), name], stdout=subprocess.PIPE, text=True, check=False
    )
    if result.returncode == _NO_COMPILER:
        skips.skip("there is no g++ with Python's headers", "apt-get install g++ python3-dev")
    result.check_returncode()
    return result.stdout.strip()


def task_defaults(name: str) -> dict[str, Any]:
    """Return task container defaults under which `python3` has a framework, in Docker and in processes.

    Containers see the environment and the Python that it was made from at the paths they have here.
    """
    python = pathlib.Path(require(name))
    base = subprocess.run(
        [str(python), "-c", "import sys; print(sys.base_prefix)"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()
    # Scripts of an environment name the interpreter where it was made, which may be elsewhere.
    made_at = str(python.parents[1].resolve())
    lent = {base, str(python.parents[1]), made_at} - {"/usr"}
    variables = {
        "PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin",
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TORCH_EXTENSIONS_DIR": str(_EXTENSIONS),
    }
    return {
        "image": "det-test:latest",
        "environment_variables": [f"{k}={v}" for k, v in variables.items()],
        "bind_mounts": [
            {"host_path": path, "container_path": path, "read_only": True} for path in sorted(lent)
        ],
    }


def environment(home: pathlib.Path) -> dict[str, str]:
    """Return variables for off-cluster runs, with a user data directory of their own and few threads."""
    environment_variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("DET_", "COV_"))
    }
    own = {"HOME": str(home), "XDG_DATA_HOME": str(home / "share"), "OMP_NUM_THREADS": "1"}
    return {
        **environment_variables,
        **own,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TORCH_EXTENSIONS_DIR": str(_EXTENSIONS),
    }


def run(
    name: str, arguments: Sequence[str], home: pathlib.Path, timeout_s: float = 900, **env: str
) -> str:
    """Run a script with a framework; return its output, or fail with it."""
    result = subprocess.run(
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
    assert result.returncode == 0, (
        f"{' '.join(arguments)} ended with {result.returncode}:\n{result.stdout}"
    )
    return result.stdout


class Forks:
    """Run scripts in forks of one process with a loaded framework, because loading takes longer than the scripts."""

    def __init__(self, server: "subprocess.Popen[str]") -> None:
        self._server = server

    def run(self, arguments: Sequence[str], home: pathlib.Path, **env: str) -> str:
        """Run a script; return its output, or fail with it."""
        (output,) = self.run_beside(arguments, home, env)
        return output

    def run_beside(
        self, arguments: Sequence[str], home: pathlib.Path, *environments: Mapping[str, str]
    ) -> list[str]:
        """Run a script once for each of the environments, all at once; return the outputs, or fail with them."""
        common = {**environment(home), "PYTHONPATH": str(ROOT)}
        jobs = [
            {"arguments": list(arguments), "environment": {**common, **own}} for own in environments
        ]
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(jobs) + "\n")
        self._server.stdin.flush()
        result = json.loads(self._server.stdout.readline())
        text = "\n".join(f"ended with {each['code']}:\n{each['output']}" for each in result)
        assert not any(each["code"] for each in result), f"{' '.join(arguments)} {text}"
        return [str(each["output"]) for each in result]


@contextmanager
def forks(python: str, home: pathlib.Path, *modules: str) -> Iterator[Forks]:
    """Load modules in a process of a framework's interpreter. Its forks run scripts."""
    with subprocess.Popen(
        [python, str(ROOT / "tests/support/forking.py"), *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**environment(home), "PYTHONPATH": str(ROOT)},
    ) as server:
        try:
            yield Forks(server)
        finally:
            server.kill()


def run_pytest(name: str, folder: pathlib.Path, home: pathlib.Path, timeout_s: float = 900) -> str:
    """Run a folder of tests in the interpreter of a framework. Return pytest's output and the passed tests.

    The common conftest imports the control plane, which such an environment does not have."""
    options = ["--confcutdir", str(folder), "-p", "no:xdist", "-x", "-rp"]
    output = run(name, ["-m", "pytest", *options, str(folder)], home, timeout_s)
    assert " skipped" not in output.splitlines()[-1], output
    return output
