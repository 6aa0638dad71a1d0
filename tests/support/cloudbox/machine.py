"""A machine: a tree of processes in namespaces of its own, which boots from user data as an image does."""

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from det_controlplane.core.provision.boot import VENV

from tests.support.cloudbox.network import GATEWAY, METADATA, Network

# The machine's own folders are mounted over those of this machine. Docker, apt and systemd only record their calls.
_BOOT = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs {scratch}
mkdir {scratch}/python
[ -z "{home}" ] || mount --bind "{home}" {scratch}/python
for folder in etc var opt root usr/local; do
    mkdir -p {scratch}/$folder/upper {scratch}/$folder/work
    over=upperdir={scratch}/$folder/upper,workdir={scratch}/$folder/work
    mount -t overlay overlay -o lowerdir=/$folder,$over /$folder
done
[ -z "{home}" ] || {{ mkdir -p "{home}" && mount --bind {scratch}/python "{home}"; }}
mount -t tmpfs tmpfs /run
hostname {name}
printf '127.0.0.1 localhost {name}\\n{metadata} metadata.google.internal metadata\\n' > /etc/hosts
mkfifo /run/power
mkdir -p {venv}/bin {scratch}/bin
for program in {programs}; do
    printf '#!/bin/sh\\necho "$(basename "$0") $*" >> /var/log/called\\n' > {scratch}/bin/$program
done
printf '#!/bin/sh\\necho "systemctl $*" >> /var/log/called\\n[ "$1" != poweroff ] || echo off > /run/power\\n' \
    > {scratch}/bin/systemctl
printf '#!/bin/sh\\necho soon > /run/power\\n' > {scratch}/bin/shutdown
printf '#!/bin/sh\\nexec {python} -m det_agent.main "$@"\\n' > {venv}/bin/det-agent
chmod +x {scratch}/bin/* {venv}/bin/det-agent
{image}
chmod +x {scratch}/bin/*
echo plug
read address
ip link set lo up
ip link set eth0 up
ip addr add $address/16 dev eth0
ip route add default via {gateway}
iptables -N DOCKER-USER
echo booting
export PATH={scratch}/bin:$PATH
{user_data} < /dev/null | cat &
read -r power < /run/power || sleep infinity
# The two minutes that boot.py leaves: what was said is on the console before they are over.
[ "$power" != soon ] || wait
echo "power off"
"""
# Python may lie on a mount of its own in one of these folders, which an overlay does not show.
_OVERLAID = ("/etc/", "/var/", "/opt/", "/root/", "/usr/local/")
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
    "LANG": "C.UTF-8",
}  # fmt: skip
# Without findmnt, a machine sees no control groups, which would be those of this machine.
_PROGRAMS = ("docker", "apt-get", "nvidia-ctk", "findmnt")


@dataclass(frozen=True)
class Image:
    """The state of a machine at its boot: commands that change a correct machine."""

    change: str = ":"
    programs: Sequence[str] = _PROGRAMS
    runs_user_data: bool = True


# A stock image: it has Python and no agent. The box has no index: pip installs only the named packages, and finds their
# imports in this environment, without our own packages.
BARE = Image(
    f"rm -r {VENV}; export PIP_NO_DEPS=1 PYTHONPATH={Path(yaml.__file__).parents[1]};"
    f" printf '#!/bin/sh\\nexec {sys.executable} \"$@\"\\n' > {{scratch}}/bin/python3"
)


@dataclass
class Machine:
    """A running machine. `console` is its output."""

    cloud_id: str
    process: "subprocess.Popen[str]"
    address: str
    console: list[str] = field(default_factory=list)
    _reader: threading.Thread | None = None

    def printed(self) -> str:
        return "\n".join(self.console)

    def kill(self) -> None:
        """Cut the power: everything that runs there ends at once."""
        self.process.kill()

    def close(self) -> None:
        self.kill()
        self.process.wait()
        if self._reader is not None:
            self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def shell(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command there, as an operator who signed in does."""
        inside = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        enter = ["nsenter", "--all", f"--target={inside.split()[0]}", "bash", "-c", command]
        return subprocess.run(enter, capture_output=True, text=True, timeout=60, check=False)


def power_on(
    network: Network,
    folder: Path,
    cloud_id: str,
    name: str,
    user_data: str,
    image: Image,
    when_plugged: Callable[[Machine], None],
    when_off: Callable[[Machine], None],
    environment: Mapping[str, str],
) -> Machine:
    """Boot a machine and return while it boots. `when_off` hears that it ended by itself or was ended."""
    scratch, script = folder / "scratch", folder / "user-data"
    scratch.mkdir(parents=True)
    script.write_text(user_data)
    script.chmod(0o700)
    # Images run user data that names its interpreter, and pass over everything else.
    runs = image.runs_user_data and user_data.startswith("#!")
    change = image.change.replace("{scratch}", str(scratch))
    boot = _BOOT.format(
        scratch=scratch, name=name, venv=VENV, python=sys.executable, image=change,
        programs=" ".join(image.programs), gateway=GATEWAY, metadata=METADATA,
        user_data=script if runs else "true",
        home=sys.base_prefix if sys.base_prefix.startswith(_OVERLAID) else "",
    )  # fmt: skip
    apart = [
        "--mount",
        "--net",
        "--uts",
        "--ipc",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]
    process = subprocess.Popen(
        ["unshare", *apart, "bash", "-c", boot], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace",
        env={**_ENVIRONMENT, **environment},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    console_lines = []
    while (line := process.stdout.readline()) not in ("plug\n", ""):
        console_lines.append(line)
    if not line:  # it died before it had a network
        dead = Machine(cloud_id, process, "", [text.rstrip("\n") for text in console_lines])
        process.wait()
        when_off(dead)
        return dead
    machine = Machine(cloud_id, process, network.plug(process.pid))
    when_plugged(machine)
    process.stdin.write(f"{machine.address}\n")
    process.stdin.flush()
    machine._reader = threading.Thread(
        target=_read_console, args=(machine, when_off), name=f"console {cloud_id}", daemon=True
    )
    machine._reader.start()
    return machine


def _read_console(machine: Machine, when_off: Callable[[Machine], None]) -> None:
    assert machine.process.stdout is not None
    for line in machine.process.stdout:
        machine.console.append(line.rstrip("\n"))
    machine.process.wait()
    when_off(machine)
