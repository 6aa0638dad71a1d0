"""Pass a container's environment to commands that arrive by ssh.

sshd does not give its sessions the container's environment. horovodrun gives them the chief's environment, with the
slots, paths and agent address of another machine.
"""

import json
import os
import re
import shlex
from typing import Dict, List, Mapping

from determined.launch import _ssh_files

# Launchers may copy the first variable to other containers. The second one exists only in sessions of sshd.
PLACE, ENTERED = "DET_PLACE", "DET_ENTERED_PLACE"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables of the session, not of the container.
_OF_SESSION = re.compile(r"SHELL|SHLVL|PWD|OLDPWD|USER|LOGNAME|MAIL|_|SSH_.*")
_OF_CONTAINER = re.compile(r"DET_.*|.*_VISIBLE_DEVICES")


def record(env: Mapping[str, str]) -> str:
    """Write the script that sshd runs for each command, and the file for `at_home`. Return the path of the file."""
    env, cwd = {k: v for k, v in env.items() if k not in (PLACE, ENTERED)}, os.getcwd()
    container_env = {k: v for k, v in env.items() if _OF_CONTAINER.fullmatch(k)}
    place = _ssh_files.write("place.json", json.dumps({"env": container_env, "cwd": cwd}))
    _ssh_files.write("enter", _enter_script({**env, ENTERED: place}, cwd))
    return place


def without_place(env: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that may appear on command lines, without the task's token and configuration."""
    return {k: v for k, v in env.items() if not _OF_CONTAINER.fullmatch(k)}


def at_home(env: Mapping[str, str]) -> Dict[str, str]:
    """Restore this container's values in a rank's environment, and change to this container's directory."""
    result = {k: v for k, v in env.items() if k not in (PLACE, ENTERED)}
    path = env.get(ENTERED) or env.get(PLACE)
    if not path:
        return result
    with open(path) as f:
        place = json.load(f)
    container_env: Dict[str, str] = place["env"]
    os.chdir(place["cwd"])
    devices = {
        name: _own_devices(result.get(name, ""), value)
        for name, value in container_env.items()
        if name.endswith("_VISIBLE_DEVICES")
    }
    return {**result, **container_env, **devices}


def _own_devices(chosen: str, all_devices: str) -> str:
    """Translate a launcher's choice of devices, which are numbers, to the names of this container's devices."""
    device_names = all_devices.split(",")
    numbers = chosen.split(",")
    if not all(n.isdigit() and int(n) < len(device_names) for n in numbers):
        return all_devices
    return ",".join(device_names[int(n)] for n in numbers)


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
