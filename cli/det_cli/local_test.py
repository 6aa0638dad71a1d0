"""`det experiment create --local --test-mode`: train one batch, validate and save a checkpoint locally."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Set
from pathlib import Path
from typing import Any

from det_cli import config_file
from det_cli.errors import FAILED, OK, CommandError
from det_cli.render import say

# The child process reads the configuration from this variable because there is no cluster.
_CONFIG_VARIABLE = "DET_LOCAL_TEST_CONFIG"
# The child process appends the names of completed steps to this file.
_SEEN_VARIABLE = "DET_LOCAL_TEST_SEEN"
_STEPS = {
    "training": "reported no metrics of training",
    "validation": "reported no validation",
    "checkpoint": "saved no checkpoint",
}


def run(text: str, model_dir: str) -> int:
    config = config_file.load(text)
    command = _command(config.get("entrypoint"))
    if not os.path.isdir(model_dir):
        raise CommandError(f"'{model_dir}' is not a directory", "name the directory of the code")
    say("Running one batch, one validation and one checkpoint on this machine.")
    with tempfile.TemporaryDirectory() as scratch:
        # Off-cluster checkpoints are stored below XDG_DATA_HOME. The checkpoint of a test is not needed.
        env = {**os.environ, "XDG_DATA_HOME": scratch, _CONFIG_VARIABLE: json.dumps(config)}
        paths = [os.path.abspath(model_dir), env.get("PYTHONPATH", "")]
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


def _interpreter() -> str:
    """Return DET_PYTHON_EXECUTABLE, which may have other packages installed, or the current interpreter."""
    return os.environ.get("DET_PYTHON_EXECUTABLE") or sys.executable


def _command(entrypoint: Any) -> list[str]:
    """Return the command to run. A trial class runs in the harness's test mode, a script runs unchanged."""
    if isinstance(entrypoint, list) and entrypoint:
        return [str(part) for part in entrypoint]
    if not isinstance(entrypoint, str) or not entrypoint.strip():
        raise CommandError("the configuration has no entrypoint", "add `entrypoint: module:Class`")
    words = shlex.split(entrypoint)
    trial_class = _trial_class(words)
    if trial_class is not None:
        return [_interpreter(), "-m", "determined.experimental._one_batch", trial_class]
    return words


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
