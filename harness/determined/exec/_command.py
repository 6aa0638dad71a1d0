"""Determine the command that a task runs."""

import json
import os
import re
import shlex
import sys
from typing import Any, Dict, List, Mapping, Sequence, Union

from determined._paths import run_dir

_TRIAL_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

_DET = """\
#!/bin/sh
PYTHONPATH={harness}${{PYTHONPATH:+:$PYTHONPATH}} exec {python} -m determined.cli "$@"
"""

Entrypoint = Union[str, Sequence[str]]


class NoEntrypoint(ValueError):
    """The configuration has no entrypoint."""


def task_command(args: Sequence[str], env: Mapping[str, str], total_slots: int) -> List[str]:
    """Return the entry script's arguments, or DET_TASK_ENTRYPOINT, or the configured `entrypoint` as a command."""
    command = list(args[1:] if args[:1] == ["--"] else args)
    if command:
        return command
    entrypoint_text = env.get("DET_TASK_ENTRYPOINT")
    if entrypoint_text:
        return as_command(_parse(entrypoint_text), total_slots)
    if env.get("DET_TASK_TYPE") == "CHECKPOINT_GC":
        return [sys.executable, "-m", "determined.exec.gc_checkpoints"]
    config: Dict[str, Any] = json.loads(env.get("DET_EXPERIMENT_CONFIG") or "{}")
    entrypoint = config.get("entrypoint")
    if not entrypoint:
        raise NoEntrypoint(
            f"task {env.get('DET_TASK_ID', '')} has no entrypoint: set `entrypoint` in its "
            "configuration, for instance `entrypoint: python3 train.py`"
        )
    return as_command(entrypoint, total_slots)


def as_command(entrypoint: Entrypoint, total_slots: int) -> List[str]:
    """Convert an entrypoint to a command. Lists stay unchanged, a trial class gets a launcher, other text a shell."""
    if not isinstance(entrypoint, str):
        return [str(part) for part in entrypoint]
    if not _TRIAL_CLASS.fullmatch(entrypoint.strip()):
        return ["sh", "-c", entrypoint]
    trial = ["--trial", entrypoint.strip()]
    if total_slots > 1:
        return [sys.executable, "-m", "determined.launch.torch_distributed", *trial]
    return [sys.executable, "-m", "determined.exec.harness", *trial]


def write_det_program() -> None:
    """Write the task's `det` program. It finds the harness even if a script replaced PYTHONPATH."""
    harness = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = _DET.format(
        harness=shlex.quote(os.path.dirname(harness)), python=shlex.quote(sys.executable)
    )
    os.makedirs(_programs_dir(), exist_ok=True)
    path = os.path.join(_programs_dir(), "det")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755), "w") as f:
        f.write(program)


def _programs_dir() -> str:
    return os.path.join(run_dir(), "bin")


def child_environment(env: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of the user's command, with `det` on its PATH."""
    child = dict(env)
    folders = [_programs_dir()]
    # Python buffers piped output in blocks, but users watch logs live.
    child.setdefault("PYTHONUNBUFFERED", "1")
    if env.get("DET_RUNTIME") == "process":
        # Without an image, `python3` is the interpreter that the agent chose.
        folders.append(os.path.dirname(sys.executable))
    child["PATH"] = os.pathsep.join((*folders, env.get("PATH") or os.defpath))
    return child


def _parse(text: str) -> Entrypoint:
    """Parse an entrypoint: JSON (a list or a string), or a bare command line."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (str, list)) else text
