"""The script that sets the MTU of Docker's networks: packets on Compute Engine have at most 1460 bytes."""

import json
import os
import subprocess
from importlib import resources
from pathlib import Path

import pytest

SETUP = (resources.files("det_agent") / "machine-setup.sh").read_text()
HEAD = "cat > /usr/local/sbin/determined-docker-mtu <<'END'\n"
ROUTE = "default via 10.128.0.1 dev ens4 proto dhcp src 10.128.0.9 metric 100"


def ran(folder: Path, mtu: int, options: str = "") -> tuple[str, str]:
    """Run the script on a machine with this MTU; return its output and Docker's options afterwards."""
    (folder / "net/ens4").mkdir(parents=True)
    (folder / "net/ens4/mtu").write_text(f"{mtu}\n")
    (folder / "ip").write_text(f"#!/bin/sh\necho '{ROUTE}'\n")
    (folder / "ip").chmod(0o755)
    docker = folder / "docker/daemon.json"
    if options:
        docker.parent.mkdir()
        docker.write_text(options)
    script = SETUP.partition(HEAD)[2].partition("\nEND\n")[0]
    script = script.replace("/sys/class/net", str(folder / "net"))
    script = script.replace("/etc/docker", str(folder / "docker"))
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    result = subprocess.run(
        ["sh", "-c", script], env=path, check=True, capture_output=True, text=True
    )
    return result.stdout.strip(), docker.read_text() if docker.exists() else ""


def test_mtu_is_added_to_existing_docker_options(tmp_path: Path) -> None:
    nvidia = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}
    output, options = ran(tmp_path, 1460, json.dumps(nvidia))
    assert (output, json.loads(options)) == ("changed", {**nvidia, "mtu": 1460})


def test_options_are_created_if_docker_has_none(tmp_path: Path) -> None:
    output, options = ran(tmp_path, 1460)
    assert (output, json.loads(options)) == ("changed", {"mtu": 1460})


def test_docker_is_not_restarted_without_a_change(tmp_path: Path) -> None:
    assert ran(tmp_path, 1460, '{"mtu": 1460}') == ("", '{"mtu": 1460}')


@pytest.mark.parametrize("mtu", [1500, 9001])
def test_default_or_larger_mtu_changes_no_options(tmp_path: Path, mtu: int) -> None:
    assert ran(tmp_path, mtu) == ("", "")
