"""Containers in the machine's own network, from which the metadata service is kept by their control group.

`det-agent machine-setup` blocks it for a slice, and names that in a file: where there is none, nothing is blocked.
"""

from pathlib import Path
from typing import Any

SLICE = Path("/run/determined-slice")


def cgroup_parent(client: Any) -> str:
    """Return below what the engine must start such containers; empty where the metadata service is open to them.

    Raises DockerException or OSError."""
    try:
        slice_name = SLICE.read_text().strip()
    except FileNotFoundError:
        return ""
    info = client.info()
    if str(info.get("CgroupVersion")) != "2":
        return ""  # sockets are told apart in the second version only
    return slice_name if info.get("CgroupDriver") == "systemd" else f"/{slice_name}"
