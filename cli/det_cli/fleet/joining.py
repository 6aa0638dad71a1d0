"""Join hosts to the cluster and remove them, several at a time. A failed host does not stop the others."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from determined.common.http import APIError, RequestFailed, Session
from determined.common.pages import V1

from det_cli.fleet import facts as checks
from det_cli.fleet.facts import Cluster, Finding, Manifest
from det_cli.fleet.hosts import Host
from det_cli.fleet.machine import Machine, probe
from det_cli.fleet.software import Software, Trust, agent_config, installation, manifest
from det_cli.fleet.ssh import HostFailed, Ssh

_POLL_S = 1.0
# A token lets one new agent join, soon after it was created. A known agent may use it until it is revoked.
_TOKEN = {"lifespan": "1h", "maxUses": 1}
JOINED, UPGRADED, CHANGED, STARTED, UNCHANGED = (
    "joined",
    "upgraded",
    "changed",
    "started",
    "already joined",
)
REMOVED, ABSENT, FAILED = "removed", "not joined", "failed"


@dataclass(frozen=True)
class Outcome:
    """The result of one host, with the cause and the fix of a failure."""

    host: str
    result: str
    agent_id: str = ""
    pool: str = ""
    detail: str = ""
    cause: str = ""
    fix: str = ""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """The cluster, the connections and the limits that the hosts of one command share."""

    session: Session
    ssh: Ssh
    cluster: Cluster
    trust: Trust
    say: Callable[[str], None]
    parallel: int = 10
    take_over: bool = False
    join_timeout_s: float = 120.0
    drain_timeout_s: float = 600.0
    sleep: Callable[[float], None] = field(default=time.sleep)

    def each(
        self, work: "Callable[[Machine], Outcome]", machines: "Sequence[Machine | Outcome]"
    ) -> list[Outcome]:
        """Work on all machines, at most `parallel` at a time. Return the outcomes in the order of the machines.

        A host that failed before keeps its outcome. An error of the API fails one host and not the others."""

        def guarded(machine: "Machine | Outcome") -> Outcome:
            if isinstance(machine, Outcome):
                return machine
            try:
                return work(machine)
            except RequestFailed as e:
                fix = "look at the state of the cluster, then run the command again"
                return _failed(
                    machine.host, HostFailed(f"the cluster did not accept a step: {e}", fix)
                )

        with ThreadPoolExecutor(max(self.parallel, 1)) as pool:
            return list(pool.map(guarded, machines))

    def agent(self, agent_id: str) -> "dict[str, Any] | None":
        try:
            agent: dict[str, Any] = self.session.get(f"{V1}/agents/{agent_id}")["agent"]
        except APIError as e:
            if e.status == 404:
                return None
            raise
        return agent


def probed(fleet: Fleet, hosts: Sequence[Host], url: str) -> Iterator["Machine | Outcome"]:
    """Yield the machine of each host, or the outcome of a host that SSH did not reach."""

    def work(host: Host) -> "Machine | Outcome":
        try:
            return probe(fleet.ssh, host, url, fleet.trust)
        except HostFailed as e:
            return _failed(host, e)

    with ThreadPoolExecutor(max(fleet.parallel, 1)) as pool:
        yield from pool.map(work, hosts)


def check_all(fleet: Fleet, hosts: Sequence[Host]) -> list["Machine | Outcome"]:
    """Return the machine of each host that can join, and the outcome of each other host."""
    found = list(probed(fleet, hosts, fleet.cluster.url))
    names = [m.agent_id for m in found if isinstance(m, Machine)]
    return [_checked(fleet, m, names) if isinstance(m, Machine) else m for m in found]


def _checked(fleet: Fleet, machine: Machine, names: Sequence[str]) -> "Machine | Outcome":
    found = findings_of(fleet, machine, names)
    failed = [f for f in found if f.verdict == checks.FAILED]
    if not failed:
        return machine
    causes = "; ".join(f.cause for f in failed)
    fixes = "; ".join(f.fix for f in failed if f.fix)
    return dataclasses.replace(
        _failed(machine.host, HostFailed(causes, fixes)), agent_id=machine.agent_id, findings=found
    )


def findings_of(fleet: Fleet, machine: Machine, names: Sequence[str]) -> tuple[Finding, ...]:
    """Return the checks of a machine, including whether its agent's id is unique."""
    found = [
        f
        for f in checks.findings(machine.host, machine.facts, fleet.cluster)
        if not (fleet.take_over and f.check == "agent" and machine.facts.manifest is None)
    ]
    if names.count(machine.agent_id) > 1:
        found.append(
            Finding(
                "name",
                checks.FAILED,
                f"several hosts have the agent id {machine.agent_id!r}",
                "give each one its own with agent=",
            )
        )
    elif machine.facts.manifest is None and not fleet.take_over and fleet.agent(machine.agent_id):
        found.append(
            Finding(
                "name",
                checks.FAILED,
                f"the cluster has an agent {machine.agent_id!r} already",
                "give this one another id with agent=; or --take-over, if this host was that agent",
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class Plan:
    """The change that brings a host to the wanted state."""

    result: str
    needs_token: bool
    restarts: bool


def plan(machine: Machine, wanted: Manifest, agent: "Mapping[str, Any] | None") -> Plan:
    """Decide which steps a host needs, from its facts and from the agent in the cluster."""
    facts, notes = machine.facts, machine.facts.manifest
    needs_token = agent is None or not facts.has("has_token") or notes is None
    if notes is None or notes.agent_id != wanted.agent_id:
        return Plan(JOINED, True, True)
    if notes.wheel != wanted.wheel:
        return Plan(UPGRADED, needs_token, True)
    if (notes.config, notes.service) != (wanted.config, wanted.service):
        return Plan(CHANGED, needs_token, True)
    if not facts.has("active"):
        return Plan(STARTED, needs_token, True)
    return Plan(JOINED, True, True) if needs_token else Plan(UNCHANGED, False, False)


def join(fleet: Fleet, software: Software, machine: Machine) -> Outcome:
    """Bring a host to the wanted state and wait until the cluster sees its agent."""
    host, agent_id, notes = machine.host, machine.agent_id, machine.facts.manifest
    before = fleet.agent(agent_id)
    old_token = notes.token_id if notes else 0
    wanted = manifest(host, agent_id, fleet.cluster, fleet.trust, software, old_token)
    todo = plan(machine, wanted, before)
    done = Outcome(host.name, todo.result, agent_id, host.pool, _detail(software, notes, todo))
    if todo.result == UNCHANGED:
        return done
    fleet.say(f"{host.name}: {_DOING[todo.result]} agent {agent_id}")
    token_id, token = _new_token(fleet, host) if todo.needs_token else (old_token, "")
    try:
        files = installation(
            software,
            fleet.trust,
            agent_config(host, agent_id, fleet.cluster, fleet.trust),
            dataclasses.replace(wanted, token_id=token_id),
            _settings(machine, software, todo),
            token,
        )
        machine.install(files)
    except HostFailed as e:
        if token:
            _revoke(fleet, token_id)
        return _failed(host, e, agent_id)
    try:
        agent = _wait_until_seen(fleet, machine, before)
    except HostFailed as e:  # its token stays valid, because it may still join
        return _failed(host, e, agent_id)
    if token and old_token:
        _revoke(fleet, old_token)
    if notes is None and not agent.get("outOfService") and not agent["enabled"]:
        fleet.session.post(f"{V1}/agents/{agent_id}/enable")  # --remove drained it
    if agent.get("outOfService"):
        return dataclasses.replace(done, detail=f"out of service: {agent['outOfService']}")
    return done


_DOING = {JOINED: "installing", UPGRADED: "upgrading", CHANGED: "configuring", STARTED: "starting"}


def _settings(machine: Machine, software: Software, todo: Plan) -> dict[str, str]:
    return {
        "python": machine.facts.text("python"),
        "service": machine.host.service,
        "release": software.release,
        "restart": "yes" if todo.restarts else "no",
    }


def _detail(software: Software, notes: "Manifest | None", todo: Plan) -> str:
    if todo.result == UPGRADED and notes and notes.version != software.version:
        return f"{notes.version} to {software.version}"
    return f"version {software.version}"


def _new_token(fleet: Fleet, host: Host) -> tuple[int, str]:
    body = {"description": f"det agent join {host.name}", **_TOKEN}
    token = fleet.session.post(f"{V1}/agent-tokens", body)["agentToken"]
    return int(token["id"]), str(token["token"])


def _revoke(fleet: Fleet, token_id: int) -> None:
    try:
        fleet.session.request("DELETE", f"{V1}/agent-tokens/{token_id}")
    except APIError as e:
        if e.status != 404:
            raise


def _wait_until_seen(
    fleet: Fleet, machine: Machine, before: "Mapping[str, Any] | None"
) -> Mapping[str, Any]:
    """Return the agent as soon as it has joined after this start. Raise HostFailed with its reason if it does not."""
    from det_controlplane.core.provision.boot import last_words

    deadline = time.monotonic() + fleet.join_timeout_s
    joined_before = before["registeredTime"] if before else ""
    while time.monotonic() < deadline:
        agent = fleet.agent(machine.agent_id)
        if agent is not None and agent["registeredTime"] != joined_before:
            return agent
        fleet.sleep(_POLL_S)
    words = last_words(machine.log()) or "its log is empty"
    log = (
        "journalctl -u det-agent"
        if machine.host.service == "systemd"
        else "tail /var/log/determined-agent.log"
    )
    raise HostFailed(
        f"the agent was started and did not join within {fleet.join_timeout_s:.0f} s: {words}",
        f"look at `{log}` there, then run it again; --timeout waits longer",
    )


def remove(fleet: Fleet, machine: Machine, *, now: bool) -> Outcome:
    """Drain the agent of a host, stop it and remove its files. With `now`, its tasks return to the queue instead."""
    host, notes, facts = machine.host, machine.facts.manifest, machine.facts
    if notes is None and not (facts.has_foreign_agent and fleet.take_over):
        detail = (
            "it has an agent that `det agent join` did not install"
            if facts.has_foreign_agent
            else ""
        )
        return Outcome(host.name, ABSENT, "", detail=detail)
    agent_id = machine.agent_id
    try:
        _require_removable(fleet, machine)
        _drain(fleet, host, agent_id, now=now)
        machine.remove()
    except HostFailed as e:
        return _failed(host, e, agent_id)
    if notes is not None and notes.token_id:
        _revoke(fleet, notes.token_id)
    return Outcome(host.name, REMOVED, agent_id)


def _require_removable(fleet: Fleet, machine: Machine) -> None:
    notes = machine.facts.manifest
    if machine.facts.has("no_root"):
        raise HostFailed(
            f"{machine.facts.text('user')} cannot run sudo without a password", "use user=root"
        )
    if notes is not None and notes.cluster_id != fleet.cluster.id:
        raise HostFailed(
            f"it is agent {notes.agent_id} of another cluster",
            "run the command with that cluster's address (-m)",
        )


def _drain(fleet: Fleet, host: Host, agent_id: str, *, now: bool) -> None:
    agent = fleet.agent(agent_id)
    if agent is None:
        return
    fleet.say(f"{host.name}: {'stopping' if now else 'draining'} agent {agent_id}")
    fleet.session.post(f"{V1}/agents/{agent_id}/disable", {"drain": not now})
    deadline = time.monotonic() + fleet.drain_timeout_s
    while agent and agent["containers"]:
        if time.monotonic() > deadline:
            number = len(agent["containers"])
            raise HostFailed(
                f"agent {agent_id} still runs {number} containers after {fleet.drain_timeout_s:.0f} s;"
                " it gets no new ones",
                "run the command again later, or give --now to return them to the queue",
            )
        fleet.sleep(_POLL_S)
        agent = fleet.agent(agent_id)


def _failed(host: Host, error: HostFailed, agent_id: str = "") -> Outcome:
    return Outcome(host.name, FAILED, agent_id, host.pool, cause=error.cause, fix=error.fix)
