"""A host of the fleet behind SSH, with its facts, its installation and its log."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from det_cli.fleet.facts import Facts, parse_facts
from det_cli.fleet.hosts import Host
from det_cli.fleet.software import Trust, packed, script
from det_cli.fleet.ssh import HostFailed, Result, Ssh

_PROBE_S, _INSTALL_S, _REMOVE_S, _LOG_S = 120.0, 1800.0, 120.0, 60.0
_SAYS = "det-agent-join: "
# Status of the scripts if another `det agent join` works on the host.
_LOCKED = 75
_FIXES = {
    "environment": "check that the Python there can make virtual environments (python=)",
    "libraries": "the host needs a package index; its /etc/pip.conf can name yours and a proxy",
    "agent": "run it again; the wheel comes from the cluster",
    "service": "look at `systemctl status det-agent` there",
}
# Files reach the host on standard input, because other users can see arguments and variables of processes.
_RECEIVE = """umask 077; d=$(mktemp -d) || exit 1; trap 'rm -rf "$d"' EXIT; trap 'exit 1' HUP INT TERM
tar -xf - -C "$d" && {root}sh "$d/{script}" "$d" < /dev/null"""
_LOG = "journalctl -u det-agent -n 40 -o cat --no-pager 2> /dev/null || tail -n 40 /var/log/determined-agent.log"


@dataclass(frozen=True)
class Machine:
    """A host and the facts that the probe found there."""

    host: Host
    ssh: Ssh
    facts: Facts

    @property
    def agent_id(self) -> str:
        known = self.facts.manifest.agent_id if self.facts.manifest else ""
        return self.host.agent or known or self.facts.text("hostname")

    @property
    def _root(self) -> str:
        return "" if self.facts.text("user") == "root" else "sudo -n "

    def install(self, files: bytes) -> None:
        """Install, upgrade or configure the agent, and start it. Raise HostFailed."""
        self._run_script("install.sh", files, _INSTALL_S)

    def remove(self) -> None:
        """Stop the agent and remove its files. Raise HostFailed."""
        self._run_script("remove.sh", packed({"remove.sh": script("remove.sh")}), _REMOVE_S)

    def log(self) -> str:
        """Return the last lines of the agent's log, or '' if they cannot be read."""
        try:
            return self.ssh.run(
                self.host, f"{self._root}sh -c {shlex.quote(_LOG)}", b"", _LOG_S
            ).out
        except HostFailed:
            return ""

    def _run_script(self, name: str, files: bytes, timeout_s: float) -> None:
        command = _RECEIVE.format(root=self._root, script=name)
        result = self.ssh.run(self.host, f"sh -c {shlex.quote(command)}", files, timeout_s)
        if result.status:
            raise _script_failure(result)


def _script_failure(result: Result) -> HostFailed:
    steps = [line[len(_SAYS) :] for line in result.out.splitlines() if line.startswith(_SAYS)]
    step = steps[-1] if steps else "start"
    if result.status == _LOCKED:
        return HostFailed("another `det agent join` works on it", "wait until that one has ended")
    lines = [line.strip() for line in result.err.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    words = (errors or lines or [f"status {result.status}"])[-1][:300]
    return HostFailed(
        f"step {step!r} failed: {words}", _FIXES.get(step, "fix the cause there, then run it again")
    )


def probe(ssh: Ssh, host: Host, url: str, trust: Trust) -> Machine:
    """Collect the facts of a host. With a URL, the host also tries to reach the cluster. Raise HostFailed."""
    asked: Mapping[str, object] = {
        "url": url,
        "certificate": trust.certificate,
        "fingerprint": trust.fingerprint,
        "verify": trust.verify,
    }
    variables = {
        "service": host.service,
        "python": host.python,
        "master": json.dumps(asked) if url else "",
    }
    head = "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())
    result = ssh.run(host, "sh -s", head.encode() + script("probe.sh"), _PROBE_S)
    return Machine(host, ssh, parse_facts(result.out))
