"""Commands on other machines by the system's `ssh`, which checks host keys."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from det_cli.errors import CommandError
from det_cli.fleet.hosts import Host

CONNECT_S = 15
# ssh exits with this status if the connection failed; otherwise with the status of the command.
_SSH_FAILED = 255
# Parts of ssh's messages, with the cause and the fix for users.
_CAUSES = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key differs from the known one",
        "if the machine was installed again, run `ssh-keygen -R {target}` and try again",
    ),
    (
        "Host key verification failed",
        "its host key is unknown",
        "connect once with `{login}` and compare the fingerprint, or give --accept-new-host-keys",
    ),
    (
        "Permission denied",
        "SSH refused the login",
        "check user= and key=, or load the key with `ssh-add`; `{login}` must work without a question",
    ),
    ("Could not resolve hostname", "its name is unknown", "check the name, or give address=…"),
    (
        "Connection refused",
        "nothing listens on the SSH port",
        "check port=, and that sshd runs there",
    ),
    (
        "timed out",
        "it does not answer",
        "check the address, the machine and the firewalls on the way",
    ),
    ("No route to host", "there is no route to it", "check the address and the network"),
    (
        "UNPROTECTED PRIVATE KEY",
        "other users can read the private key",
        "run `chmod 600` on the file of key=",
    ),
    (
        "banner exchange",
        "its SSH server does not speak",
        "check port=; another program may listen there",
    ),
)


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


class HostFailed(Exception):
    """A host that could not be reached or prepared. It has a cause and a fix."""

    def __init__(self, cause: str, fix: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.fix = fix


class Ssh:
    """The system's `ssh` with the options that all hosts share."""

    def __init__(self, options: Sequence[str] = (), *, accept_new: bool = False) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise CommandError("there is no `ssh` on this machine", "install openssh-client")
        self._program = program
        # Never ask: questions of several hosts would mix.
        self._options = [
            "BatchMode=yes",
            f"ConnectTimeout={CONNECT_S}",
            "ServerAliveInterval=15",
            "ForwardAgent=no",
            "ForwardX11=no",
        ]
        if accept_new:
            self._options.append("StrictHostKeyChecking=accept-new")
        self._options += options

    def run(self, host: Host, command: str, data: bytes, timeout_s: float) -> Result:
        """Run a shell command on the host with `data` as its input. Raise HostFailed if SSH fails."""
        process = subprocess.Popen(
            [*self._arguments(host), command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
        try:
            out, err = process.communicate(data, timeout_s)
        except subprocess.TimeoutExpired:
            raise HostFailed(
                f"a step took more than {timeout_s:.0f} s",
                "look at the load of the machine and its way to the package index, then try again",
            ) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        result = Result(
            process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
        )
        if result.status == _SSH_FAILED:
            raise self._failure(host, result.err)
        return result

    def _arguments(self, host: Host) -> list[str]:
        arguments = [self._program, "-T"]
        for option in self._options:
            arguments += ["-o", option]
        if host.user:
            arguments += ["-l", host.user]
        if host.port:
            arguments += ["-p", host.port]
        if host.key:
            arguments += ["-i", str(Path(host.key).expanduser()), "-o", "IdentitiesOnly=yes"]
        return [*arguments, "--", host.target]

    def _failure(self, host: Host, message: str) -> HostFailed:
        port = f" -p {host.port}" if host.port else ""
        login = f"ssh{port} {host.user + '@' if host.user else ''}{host.target}"
        for part, cause, fix in _CAUSES:
            if part in message:
                target = f"[{host.target}]:{host.port}" if host.port else host.target
                return HostFailed(cause, fix.format(login=login, target=target))
        words = " ".join(message.split())[-300:] or "the connection ended"
        return HostFailed(f"SSH failed: {words}", f"try `{login}`")
