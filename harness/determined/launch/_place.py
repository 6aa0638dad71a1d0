"""Hand the environment of a container to commands that come in by ssh.

sshd gives its sessions none of the container's environment, and horovodrun gives them the chief's, in which the
slots, the paths and the address of the agent are those of another machine.
"""

import json
import os
import re
import shlex
from typing import Dict, List, Mapping

from determined.launch import _ssh_files

# The first is set where a launcher runs, and some launchers take it along; the second only in sessions of sshd.
PLACE, ENTERED = "DET_PLACE", "DET_ENTERED_PLACE"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Of the session, not of the container.
_OF_SESSION = re.compile(r"SHELL|SHLVL|PWD|OLDPWD|USER|LOGNAME|MAIL|_|SSH_.*")
_OF_CONTAINER = re.compile(r"DET_.*|.*_VISIBLE_DEVICES")


def record(env: Mapping[str, str]) -> str:
    """Write `enter`, which sshd runs for each command, and what `at_home` reads, whose path is returned."""
    env, cwd = {k: v for k, v in env.items() if k not in (PLACE, ENTERED)}, os.getcwd()
    kept = {k: v for k, v in env.items() if _OF_CONTAINER.fullmatch(k)}
    place = _ssh_files.write("place.json", json.dumps({"env": kept, "cwd": cwd}))
    _ssh_files.write("enter", _enter_script({**env, ENTERED: place}, cwd))
    return place


def without_place(env: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that other containers may see on command lines: not the task's token and configuration."""
    return {k: v for k, v in env.items() if not _OF_CONTAINER.fullmatch(k)}


def at_home(env: Mapping[str, str]) -> Dict[str, str]:
    """Restore this container's own values in a rank's environment, and go to this container's directory."""
    found = {k: v for k, v in env.items() if k not in (PLACE, ENTERED)}
    path = env.get(ENTERED) or env.get(PLACE)
    if not path:
        return found
    with open(path) as f:
        place = json.load(f)
    own: Dict[str, str] = place["env"]
    os.chdir(place["cwd"])
    devices = {
        name: _own_devices(found.get(name, ""), value)
        for name, value in own.items()
        if name.endswith("_VISIBLE_DEVICES")
    }
    return {**found, **own, **devices}


def _own_devices(chosen: str, own: str) -> str:
    """Translate a launcher's choice, by number, into the devices that this container has."""
    mine = own.split(",")
    numbers = chosen.split(",")
    if not all(n.isdigit() and int(n) < len(mine) for n in numbers):
        return own
    return ",".join(mine[int(n)] for n in numbers)


def _enter_script(env: Mapping[str, str], cwd: str) -> str:
    lines: List[str] = [
        f"export {name}={shlex.quote(value)}"
        for name, value in env.items()
        if _NAME.fullmatch(name) and not _OF_SESSION.fullmatch(name)
    ]
    lines += [
        f"cd {shlex.quote(cwd)} || exit",
        "command=$SSH_ORIGINAL_COMMAND",
        "unset SSH_ORIGINAL_COMMAND",
        '[ -n "$command" ] || exec "$SHELL" -l',
        'exec "$SHELL" -c "$command"',
    ]
    return "\n".join(lines) + "\n"
