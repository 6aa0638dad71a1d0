"""Find the command that a task runs."""

import json
import os
import re
import sys
from typing import Any, Dict, List, Mapping, Sequence, Union

_TRIAL_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

Entrypoint = Union[str, Sequence[str]]


class NoEntrypoint(ValueError):
    """The configuration has no entrypoint."""


def task_command(args: Sequence[str], env: Mapping[str, str], total_slots: int) -> List[str]:
    """Return the command: arguments of the entry, else DET_TASK_ENTRYPOINT, else the experiment's `entrypoint`."""
    given_args = list(args[1:] if args[:1] == ["--"] else args)
    if given_args:
        return given_args
    given = env.get("DET_TASK_ENTRYPOINT")
    if given:
        return as_command(_parse(given), total_slots)
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
    """Turn an entrypoint into a command: a list as it is, a trial class by a launcher, other text by a shell."""
    if not isinstance(entrypoint, str):
        return [str(part) for part in entrypoint]
    if not _TRIAL_CLASS.fullmatch(entrypoint.strip()):
        return ["sh", "-c", entrypoint]
    trial = ["--trial", entrypoint.strip()]
    if total_slots > 1:
        return [sys.executable, "-m", "determined.launch.torch_distributed", *trial]
    return [sys.executable, "-m", "determined.exec.harness", *trial]


def child_environment(env: Mapping[str, str]) -> Dict[str, str]:
    child = dict(env)
    # Piped output would be held back in blocks; people watch logs live.
    child.setdefault("PYTHONUNBUFFERED", "1")
    if env.get("DET_RUNTIME") == "process":
        # Without an image, `python3` means the interpreter that the agent chose.
        own = os.path.dirname(sys.executable)
        child["PATH"] = os.pathsep.join(p for p in (own, env.get("PATH", "")) if p)
    return child


def _parse(given: str) -> Entrypoint:
    """Parse an entrypoint: JSON (a list or a string), or a bare command line."""
    try:
        value = json.loads(given)
    except ValueError:
        return given
    return value if isinstance(value, (str, list)) else given
