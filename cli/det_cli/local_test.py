"""`det experiment create --local --test-mode`: train one batch, validate and save a checkpoint locally."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Set
from pathlib import Path
from typing import Any

import determined
from determined._example_hparams import example

from det_cli import config_file
from det_cli.errors import FAILED, OK, CommandError
from det_cli.render import cell, say

# The child process reads the configuration from this variable because there is no cluster.
_CONFIG_VARIABLE = "DET_LOCAL_TEST_CONFIG"
# The child process appends the names of completed steps to this file.
_SEEN_VARIABLE = "DET_LOCAL_TEST_SEEN"
UNCHANGED = "--test-mode cannot shorten a script: it trains as long as its code says, unless --config sets less."
_STEPS = {
    "training": "reported no metrics of training",
    "validation": "reported no validation",
    "checkpoint": "saved no checkpoint",
}


def run(text: str, model_dir: str) -> int:
    config = config_file.load(text)
    if not os.path.isdir(model_dir):
        raise CommandError(f"'{model_dir}' is not a directory", "name the directory of the code")
    variables = _environment_variables(config)
    python = _interpreter(variables)
    command = _command(config.get("entrypoint"), python)
    _say_plan(config, command, python)
    with tempfile.TemporaryDirectory() as scratch:
        # Off-cluster checkpoints are stored below XDG_DATA_HOME. The checkpoint of a test is not needed.
        env = {
            **os.environ,
            **variables,
            "XDG_DATA_HOME": scratch,
            _CONFIG_VARIABLE: json.dumps(config),
        }
        paths = [os.path.abspath(model_dir), env.get("PYTHONPATH", "")]
        if python != sys.executable:
            paths.append(_own_package(scratch))
            env["PATH"] = os.pathsep.join([os.path.dirname(python), env.get("PATH", os.defpath)])
        env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        notes = Path(scratch, "seen")
        notes.touch()
        env[_SEEN_VARIABLE] = str(notes)
        code = subprocess.run(command, cwd=model_dir, env=env, check=False).returncode
        steps = set(notes.read_text().split())
    if code == 0:
        return judge(steps)
    say(f"The test failed: {shlex.join(command)} exited with {code}.")
    return FAILED


def _say_plan(config: dict[str, Any], command: list[str], python: str) -> None:
    """Print the command of the test, its Python and its hyperparameters."""
    if is_trial_class(config.get("entrypoint")):
        say("Running one batch, one validation and one checkpoint on this machine.")
    else:
        say(f"Running `{shlex.join(command)}` on this machine. {UNCHANGED}")
    if python != sys.executable:
        say(f"Python: {python}")
    hparams = example(config.get("hyperparameters") or {})
    if hparams:
        values = ", ".join(f"{name}={cell(value)}" for name, value in hparams.items())
        say(f"Hyperparameters: {values}")


def _own_package(folder: str) -> str:
    """Return a directory with only the package `determined`. Another Python may lack the package, as in tasks."""
    packages = Path(folder, "packages")
    packages.mkdir()
    (packages / "determined").symlink_to(Path(determined.__file__).parent)
    return str(packages)


def _environment_variables(config: dict[str, Any]) -> dict[str, str]:
    """Return the environment variables of the configuration that have a value."""
    entries = (config.get("environment") or {}).get("environment_variables") or []
    if isinstance(entries, dict):
        entries = entries.get("cpu") or []
    pairs = (str(entry).partition("=") for entry in entries)
    return {name: value for name, equals, value in pairs if equals}


def judge(steps: Set[str]) -> int:
    """Report the completed steps of a run that exited with 0. A run without any step fails."""
    if not steps:
        say(
            "The test failed: the code exited with 0, but reported no metrics and saved no checkpoint."
        )
        return FAILED
    missing = " and ".join(step for name, step in _STEPS.items() if name not in steps)
    if missing:
        say(f"The test passed, but the code {missing}. Is this intended?")
    else:
        say("The test passed: the model trains, validates and saves a checkpoint.")
    return OK


def _interpreter(variables: dict[str, str]) -> str:
    """Return the Python that the configuration or the environment chooses for tasks, or the current one.

    Raises CommandError if it does not exist.
    """
    chosen = variables.get("DET_PYTHON_EXECUTABLE") or next(
        filter(None, map(os.environ.get, ("DET_PYTHON_EXECUTABLE", "DET_TASK_PYTHON"))), ""
    )
    if not chosen:
        return sys.executable
    path = shutil.which(os.path.expanduser(chosen))
    if path is None:
        raise CommandError(
            f"there is no Python {chosen!r}",
            "DET_PYTHON_EXECUTABLE and DET_TASK_PYTHON name an interpreter on this machine",
        )
    return os.path.abspath(path)


def _command(entrypoint: Any, python: str) -> list[str]:
    """Return the command to run. A trial class runs in the harness's test mode, a script runs unchanged."""
    if isinstance(entrypoint, list) and entrypoint:
        words = [str(part) for part in entrypoint]
    elif isinstance(entrypoint, str) and entrypoint.strip():
        words = shlex.split(entrypoint)
    else:
        raise CommandError("the configuration has no entrypoint", "add `entrypoint: module:Class`")
    trial_class = _trial_class(words)
    if trial_class is not None and isinstance(entrypoint, str):
        return [python, "-m", "determined.experimental._one_batch", trial_class]
    return [python, *words[1:]] if words[0] in ("python", "python3") else words


def is_trial_class(entrypoint: Any) -> bool:
    """Return True if --test-mode can shorten the entrypoint to one batch."""
    return isinstance(entrypoint, str) and _trial_class(shlex.split(entrypoint)) is not None


def _trial_class(words: list[str]) -> str | None:
    """Return the `module:Class` of an entrypoint, alone or behind a launcher, or None.

    Launchers need a cluster, so the test runs the class without its launcher.
    """
    if len(words) == 1:
        module, _, name = words[0].partition(":")
        return words[0] if module and name else None
    if any(word.startswith("determined.launch.") for word in words) and "--trial" in words[:-1]:
        return words[words.index("--trial") + 1]
    return None
