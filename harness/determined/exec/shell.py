"""`python3 -m determined.exec.shell`: an SSH server, and browser terminals. Only the shell's owner can connect."""

import os
import pwd
import shlex
import shutil
import subprocess
import sys
from typing import Dict, Mapping, NoReturn, Optional, Tuple

from determined._paths import run_dir
from determined.exec import _exit_reason, _install, _serve, _terminal

_PLACES = "/usr/sbin:/usr/local/sbin:/sbin:/usr/lib/openssh:/usr/libexec/openssh:/usr/lib/ssh"
_NAMES = ("sshd", "ssh-keygen")
# The SSH server sets these itself, or they belong to this process.
_NOT_PASSED_ON = ("HOME", "SHELL", "USER", "LOGNAME", "PWD", "OLDPWD", "SHLVL", "TERM", "_")
_LOGIN = """\
. {environment}
cd "$DET_WORKDIR" 2>/dev/null || cd
if [ -n "$SSH_ORIGINAL_COMMAND" ]; then exec "${{SHELL:-/bin/sh}}" -c "$SSH_ORIGINAL_COMMAND"; fi
exec "${{SHELL:-/bin/sh}}"
"""


def main() -> int:
    port, terminals = int(os.environ["SHELL_PORT"]), _terminal.take_settings()
    server, keygen = _programs()
    folder = os.path.join(run_dir(), "ssh")
    os.makedirs(folder, exist_ok=True)
    _serve.wait_for_port(port)
    config = write_files(folder, port, keygen, os.environ)
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    if terminals is not None:
        _terminal.serve(*terminals)
    # sshd requires its absolute path.
    command = [server, "-D", "-e", "-f", config]
    return _serve.Service(command, port, details=_login_name()).wait()


def _login_name() -> "Dict[str, str]":
    """Return the user name for logins. An SSH server without root privileges accepts only its own user."""
    try:
        return {"user": pwd.getpwuid(os.geteuid()).pw_name}
    except KeyError:
        return {}


def _programs() -> "Tuple[str, str]":
    """Return the paths of `sshd` and `ssh-keygen`, and install them if necessary. Raises NotInstalled."""
    reason = ""
    # A process task must not change its machine.
    if not all(map(_path, _NAMES)) and not _serve.is_process() and _install.is_allowed():
        try:
            _install.openssh()
        except _install.InstallFailed as e:
            reason = str(e)
    server, keygen = (_path(name) or _refuse(name, reason) for name in _NAMES)
    return server, keygen


def _path(name: str) -> "Optional[str]":
    return shutil.which(name) or shutil.which(name, path=_PLACES)


def _refuse(name: str, reason: str) -> "NoReturn":
    if _serve.is_process():
        raise _serve.NotInstalled(
            f"{name} is not installed on this machine",
            "install OpenSSH there (apt-get install openssh-server)",
        )
    raise _serve.NotInstalled(
        f"{name} is not installed in {_exit_reason.image_name()}{_install.failed(reason)}",
        "choose an image that has OpenSSH (environment.image), or install it in yours"
        " (apt-get install openssh-server)",
    )


def write_files(folder: str, port: int, keygen: str, env: Mapping[str, str]) -> str:
    """Write the server's key, settings and environment. Return the path of the settings."""
    key = os.path.join(folder, "host_key")
    if not os.path.exists(key):
        command = [keygen, "-q", "-t", "ed25519", "-N", "", "-f", key]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    environment, login = os.path.join(folder, "environment"), os.path.join(folder, "login")
    exported = [
        f"export {name}={shlex.quote(value)}\n"
        for name, value in env.items()
        if name.isidentifier() and name not in _NOT_PASSED_ON
    ]
    _write(environment, "".join(exported))
    _write(login, _LOGIN.format(environment=shlex.quote(environment)))
    config = os.path.join(folder, "sshd_config")
    _write(config, "".join(f"{line}\n" for line in _settings(folder, port, key, login)))
    return config


def _settings(folder: str, port: int, key: str, login: str) -> "list[str]":
    sftp = shutil.which("sftp-server", path=_PLACES)
    return [
        f"Port {port}",
        f"ListenAddress {_serve.host()}",
        f'HostKey "{key}"',
        f'AuthorizedKeysFile "{os.path.join(folder, "authorized_keys")}"',
        f'ForceCommand /bin/sh "{login}"',
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "PermitRootLogin prohibit-password",
        "StrictModes no",
        "UsePAM no",
        "PidFile none",
        "PrintMotd no",
        "AllowTcpForwarding yes",
        "ClientAliveInterval 30",
        *([f"Subsystem sftp {sftp}"] if sftp else []),
    ]


def _write(path: str, content: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as f:
        f.write(content)


if __name__ == "__main__":
    sys.exit(_serve.run(main))
