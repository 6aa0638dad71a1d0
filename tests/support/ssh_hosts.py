"""Machines behind a real sshd, made of namespaces: own /etc, /opt, /var, /run, processes and host name, our network.

With systemd they boot it as their first process. Without it, a plain sshd is all that runs.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.memory import temporary_folder
from tests.support.ports import free_port
from tests.support.processes import eventually
from tests.support.ssh import require_ssh

# A host has two environments of an agent at most, with 200 MB each.
ROOM_BYTES = 3 * 1024**3
ALL_GROUPS = Path("/sys/fs/cgroup")
SYSTEMD = Path("/lib/systemd/systemd")
# The Python below the test's own environment: hosts make environments of it.
PYTHON = os.path.realpath(sys.executable)
OTHER_USER = "fleetuser"  # may sign in, and may not use sudo
_LAYERED = ("etc", "opt", "usr", "var")
_PASSED = ("PIP_", "SSL_CERT", "REQUESTS_CA", "UV_")
_SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/authorized
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
LogLevel ERROR
SetEnv {variables}
"""
_UNITS = {
    "fleet.target": "[Unit]\nDescription=A host of a fleet\nDefaultDependencies=no\nWants=fleet-ssh.service\n"
    "[Install]\n",
    "fleet-ssh.service": "[Unit]\nDefaultDependencies=no\n[Service]\n"
    "ExecStart=/usr/sbin/sshd -D -e -f {folder}/sshd_config\n",
    # Everything else that an installation of Debian starts stays away.
    "multi-user.target": "[Unit]\nDescription=Services\nDefaultDependencies=no\n",
    "sysinit.target": "[Unit]\nDescription=Nothing\nDefaultDependencies=no\n",
    "basic.target": "[Unit]\nDescription=Nothing\nDefaultDependencies=no\n",
}
# A host has its own groups in each hierarchy, which its systemd takes for the whole of them.
_OUTSIDE = """\
set -e
for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
    if [ -e $root/cgroup.procs ]; then
        mkdir $root/{group}
        if [ -e $root/cpuset.cpus ]; then
            cat $root/cpuset.cpus > $root/{group}/cpuset.cpus
            cat $root/cpuset.mems > $root/{group}/cpuset.mems
        fi
        echo $$ > $root/{group}/cgroup.procs
    fi
done
exec unshare --mount --uts --ipc --pid --cgroup --fork --kill-child --mount-proc sh {folder}/inside
"""
_INSIDE = """\
set -e
mount --make-rprivate /
for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
    if [ -e $root/cgroup.procs ]; then mount --bind $root/{group} $root; fi
done
for layer in {layered}; do
    mkdir -p {folder}/$layer/upper {folder}/$layer/work
    mount -t overlay -o lowerdir=/$layer,upperdir={folder}/$layer/upper,workdir={folder}/$layer/work,volatile \\
        overlay /$layer
done
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/lock
hostname {name}
echo {name} > /etc/hostname
echo '{other_user}:x:12346:12346::/tmp:/bin/sh' >> /etc/passwd
rm -rf /usr/lib/systemd/system/*.wants /etc/systemd/system/*.wants /etc/determined
{units}
exec {command}
"""


@dataclass(frozen=True)
class SshHost:
    name: str
    port: int
    folder: Path
    first_pid: int  # of `unshare`, which ends with the host

    @property
    def known_hosts(self) -> str:
        key = (self.folder / "host_key.pub").read_text().split()
        return f"[127.0.0.1]:{self.port} {key[0]} {key[1]}\n"

    def line(self, key: Path, *options: str) -> str:
        """Return the line of a hosts file."""
        given = (
            f"{self.name} address=127.0.0.1 port={self.port} user=root key={key} python={PYTHON}"
        )
        return " ".join(
            [w for w in given.split() if w.split("=")[0] not in _names(options)] + [*options]
        )

    def run(self, command: str) -> str:
        """Run a command on the host, as its root at the console."""
        inside = ["nsenter", "--target", str(self._first_inside()), "--all", "sh", "-c", command]
        result = subprocess.run(inside, capture_output=True, text=True, check=False, timeout=60)
        return result.stdout + result.stderr

    def _first_inside(self) -> int:
        children = Path(f"/proc/{self.first_pid}/task/{self.first_pid}/children").read_text()
        return int(children.split()[0])


def _names(options: Iterable[str]) -> set[str]:
    return {option.partition("=")[0] for option in options}


@contextmanager
def ssh_hosts(names: Mapping[str, bool]) -> Iterator[tuple[dict[str, SshHost], Path]]:
    """Start the hosts, each with or without systemd. Yield them by name, and the private key for them."""
    require_ssh()
    with temporary_folder(ROOM_BYTES) as folder, ExitStack() as ends:
        folder.chmod(0o711)  # sshd reads the authorized keys as the user who signs in
        key = folder / "key"
        _make_key(key)
        hosts = {
            n: ends.enter_context(_host(folder / n, n, key, systemd=s)) for n, s in names.items()
        }
        yield hosts, key


@contextmanager
def _host(folder: Path, name: str, key: Path, *, systemd: bool) -> Iterator[SshHost]:
    folder.mkdir()
    _make_key(folder / "host_key")
    shutil.copy(f"{key}.pub", folder / "authorized")
    (folder / "authorized").chmod(0o644)
    folder.chmod(0o755)
    port = free_port()
    variables = " ".join(f"{n}={v}" for n, v in os.environ.items() if n.startswith(_PASSED))
    sshd = _SSHD.format(port=port, folder=folder, variables=variables or "DET_TEST=1")
    (folder / "sshd_config").write_text(sshd)
    units = "\n".join(
        f"cat > /etc/systemd/system/{unit} <<'END'\n{text.format(folder=folder)}END"
        for unit, text in _UNITS.items()
    )
    plain = f"/usr/sbin/sshd -D -e -f {folder}/sshd_config"
    command = f"{SYSTEMD} --system --unit=fleet.target" if systemd else plain
    group = f"det-test-{os.getpid()}-{name}"
    (folder / "outside").write_text(_OUTSIDE.format(folder=folder, group=group))
    (folder / "inside").write_text(
        _INSIDE.format(
            folder=folder, name=name, units=units if systemd else "", command=command,
            layered=" ".join(_LAYERED), group=group, other_user=OTHER_USER,
        )
    )  # fmt: skip
    with (folder / "console").open("wb") as console:
        process = subprocess.Popen(
            ["sh", str(folder / "outside")],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
            env={**os.environ, "container": "determined-test"},
        )
    try:
        assert eventually(lambda: _speaks_ssh(port) or process.poll() is not None), name
        assert process.poll() is None, (folder / "console").read_text(errors="replace")
        yield SshHost(name, port, folder, process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        eventually(lambda: _remove_groups(group), 10)


def _remove_groups(group: str) -> bool:
    """Remove the groups of a host in all hierarchies. Return whether all are gone; busy ones need a moment."""
    for top in (*ALL_GROUPS.glob(group), *ALL_GROUPS.glob(f"*/{group}")):
        folders = sorted((p for p in top.rglob("*") if p.is_dir()), reverse=True)
        for folder in (*folders, top):
            with suppress(OSError):
                folder.rmdir()
    return not [*ALL_GROUPS.glob(group), *ALL_GROUPS.glob(f"*/{group}")]


def _make_key(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=60
    )


def _speaks_ssh(port: int) -> bool:
    import socket

    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
