"""`det agent join` without hosts: the hosts file, the checks and the decision what a host needs."""

import io
import os
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from det_cli.errors import CommandError
from det_cli.fleet.facts import Cluster, Manifest, findings, parse_facts
from det_cli.fleet.hosts import Host, read_hosts
from det_cli.fleet.joining import Fleet, Outcome, join, plan
from det_cli.fleet.machine import Machine
from det_cli.fleet.software import Software, Trust
from det_cli.fleet.ssh import HostFailed, Ssh
from determined.common.http import APIError

from tests.cli.conftest import Det
from tests.support.fake_cluster import FakeCluster

CLUSTER = Cluster("c-1", "https://cluster.example", ("gpus",))
NOTES = Manifest("c-1", "gpu-1", "0.1.0", "wheel", "config", "systemd", 7)
HEALTHY = {
    "system": "Linux",
    "machine": "x86_64",
    "hostname": "gpu-1",
    "user": "root",
    "systemd": "yes",
    "python": "/usr/bin/python3",
    "python_version": "3.11.2",
    "engine": "Docker",
    "free_kib:/opt": "99999999",
    "nvidia_device": "yes",
    "gpus": "4",
    "gpu_toolkit": "yes",
    "cluster": "c-1",
    "clock_ahead_s": "0.2",
}


def hosts_of(tmp_path: Path, text: str, defaults: Host = Host("")) -> list[Host]:
    (tmp_path / "hosts").write_text(text)
    return read_hosts(tmp_path / "hosts", defaults)


def findings_of(
    host: Host = Host("gpu-1", pool="gpus"), **facts: str
) -> dict[str, tuple[str, str, str]]:
    output = "".join(f"{n}\t{v}\n" for n, v in {**HEALTHY, **facts}.items() if v)
    parsed = parse_facts(output)
    return {f.check: (f.verdict, f.cause, f.fix) for f in findings(host, parsed, CLUSTER)}


def test_a_hosts_file_has_options_comments_and_defaults(tmp_path: Path) -> None:
    text = """
# the machines below the stairs
gpu-1                                    # in DNS
10.0.0.7 user=ubuntu port=2222 slots=cpu
[gpus]
gpu-3 ansible_host=10.0.0.9 ansible_user=root pool=other
"""
    hosts = hosts_of(tmp_path, text, Host("", user="admin", pool="gpus"))
    assert hosts == [
        Host("gpu-1", user="admin", pool="gpus"),
        Host("10.0.0.7", user="ubuntu", port="2222", slots="cpu", pool="gpus"),
        Host("gpu-3", address="10.0.0.9", user="root", pool="other"),
    ]


@pytest.mark.parametrize(
    ("line", "cause", "hint"),
    [
        ("gpu-1 usr=root", "hosts:1: unknown option 'usr=root'", "did you mean user=?"),
        ("gpu-1 root", "hosts:1: unknown option 'root'", "known are"),
        ("-oProxyCommand=evil", "is not a host name", "start each line with the host"),
        ("gpu-1 address=-oProxyCommand=evil", "is not a host name", ""),
        ("gpu-1 user=-x", "user=-x is not the name of a user", ""),
        ("gpu-1 port=ssh", "port=ssh is not a port", "1 to 65535"),
        ("gpu-1 user=", "hosts:1: user= has no value", "write user=VALUE, or remove user="),
        ("gpu-1 ansible_user=", "hosts:1: ansible_user= has no value", "remove ansible_user="),
        ("gpu-1 pool=a pool=b", "hosts:1: pool= is there twice", "each option of a host once"),
        (
            "gpu-1 user=a ansible_user=b",
            "hosts:1: user= is there twice",
            "each option of a host once",
        ),
        ("gpu-1\ngpu-2 slots=many", "hosts:2: slots=many is unknown", "artificial:4"),
        ("gpu-1 slots=artificial:0", "hosts:1: slots=artificial:0 is unknown", "artificial:4"),
        ("gpu-1 slots=4", "hosts:1: slots=4 is unknown", "auto, none, cpu, cuda, rocm"),
        ("gpu-1 service=cron", "service=cron is unknown", "use systemd or process"),
        ("gpu-1 key=/no/such/key", "key=/no/such/key does not exist", "private key"),
        ("gpu-1\ngpu-1", "hosts:2: gpu-1 is also on line 1", "address="),
        ('gpu-1 user="root', "hosts:1: No closing quotation", "close the quotation mark"),
        ("# nothing", "names no host", "one host per line"),
        (
            "gpu-1\n[all:vars]\nansible_user=x",
            "hosts:2: [all:vars] is not supported",
            "on its line",
        ),
        ("[gpus:children]\nracks", "hosts:1: [gpus:children] is not supported", "on its line"),
    ],
)
def test_a_wrong_hosts_file_is_refused_with_its_line(
    tmp_path: Path, line: str, cause: str, hint: str
) -> None:
    with pytest.raises(CommandError) as refusal:
        hosts_of(tmp_path, line)
    assert cause in refusal.value.cause
    assert hint in refusal.value.hint


@pytest.mark.parametrize("slots", ["auto", "none", "cpu", "cuda", "gpu", "rocm", "artificial:12"])
def test_slots_of_the_agent_are_accepted(tmp_path: Path, slots: str) -> None:
    (host,) = hosts_of(tmp_path, f"gpu-1 slots={slots}")
    assert host.slots == slots


def test_no_host_at_a_time_is_refused(cluster: FakeCluster, det: Det) -> None:
    result = det("agent", "join", "--ssh", "hosts", "--parallel", "0")
    assert result.code == 2
    assert "--parallel: must be a number, 1 or more, not '0'" in result.err


def test_a_healthy_host_passes_every_check() -> None:
    assert {check: verdict for check, (verdict, _, _) in findings_of().items()} == dict.fromkeys(
        [
            "system",
            "rights",
            "service",
            "Python",
            "containers",
            "disk",
            "GPUs",
            "cluster",
            "clock",
            "agent",
        ],
        "ok",
    )


@pytest.mark.parametrize(
    ("facts", "check", "cause", "fix"),
    [
        ({"system": "Darwin"}, "system", "Darwin is not Linux", "Linux only"),
        ({"missing:tar": "yes"}, "system", "there is no tar", "util-linux"),
        ({"user": "ubuntu", "no_root": "yes"}, "rights", "ubuntu cannot run sudo", "NOPASSWD"),
        ({"systemd": ""}, "service", "systemd does not run there", "service=process"),
        (
            {"python": "", "old_python": "Python 3.8.10"},
            "Python",
            "Python 3.8.10 is too old",
            "3.10",
        ),
        ({"no_venv": "yes"}, "Python", "cannot make environments", "python3.11-venv"),
        ({"free_kib:/var/lib": "1000"}, "disk", "0.0 GiB are free below /var/lib", "2 GiB"),
        ({"gpus": "0"}, "GPUs", "an NVIDIA GPU that nvidia-smi does not show", "slots=cpu"),
        ({"gpu_toolkit": ""}, "GPUs", "containers cannot use its 4 GPUs", "Container Toolkit"),
        ({"unreachable": "timed out"}, "cluster", "does not answer there: timed out", "firewalls"),
        ({"cluster": "other"}, "cluster", "is another cluster there", "--master-url"),
        ({"clock_ahead_s": "-300"}, "clock", "differs from the cluster's by 300 s", "set-ntp"),
        ({"configured": "yes"}, "agent", "did not install", "--take-over"),
    ],
)
def test_a_failed_check_names_cause_and_fix(
    facts: dict[str, str], check: str, cause: str, fix: str
) -> None:
    verdict, found_cause, found_fix = findings_of(Host("gpu-1", pool="gpus"), **facts)[check]
    assert verdict == "failed"
    assert cause in found_cause
    assert fix in found_fix


def test_a_loopback_address_of_the_cluster_is_explained() -> None:
    facts = parse_facts("system\tLinux\npython\t/p\npython_version\t3.11\nunreachable\trefused\n")
    here = replace(CLUSTER, url="http://127.0.0.1:8080")
    (finding,) = [f for f in findings(Host("h", pool="gpus"), facts, here) if f.check == "cluster"]
    assert "--master-url" in finding.fix


def test_a_host_without_an_engine_gets_a_warning_unless_docker_is_required() -> None:
    assert findings_of(engine="")["containers"][0] == "warning"
    required = Host("gpu-1", pool="gpus", runtime="docker")
    assert findings_of(required, engine="", silent_engine="Docker")["containers"] == (
        "failed",
        "Docker is installed and does not answer",
        "run `systemctl enable --now docker`, or write runtime=process",
    )


def test_an_unknown_pool_is_refused_with_the_pools() -> None:
    assert findings_of(Host("h", pool="gpu"))["pool"] == (
        "failed",
        "the cluster has no resource pool 'gpu'",
        "use --pool or pool= with one of gpus",
    )


def test_output_of_another_program_is_no_probe() -> None:
    with pytest.raises(HostFailed, match="did not run the checks"):
        parse_facts("This account is currently not available.\n")


@pytest.mark.parametrize(
    ("notes", "facts", "is_seen", "expected"),
    [
        (None, {}, False, ("joined", True, True)),
        (NOTES, {"has_token": "yes", "active": "yes"}, True, ("already joined", False, False)),
        (NOTES, {"has_token": "yes"}, False, ("started", True, True)),
        (NOTES, {"has_token": "yes", "active": "yes"}, False, ("joined", True, True)),
        (NOTES, {"active": "yes"}, True, ("joined", True, True)),
        (
            replace(NOTES, wheel="old"),
            {"has_token": "yes", "active": "yes"},
            True,
            ("upgraded", False, True),
        ),
        (
            replace(NOTES, config="old"),
            {"has_token": "yes", "active": "yes"},
            True,
            ("changed", False, True),
        ),
        (
            replace(NOTES, service="process"),
            {"has_token": "yes", "active": "yes"},
            True,
            ("changed", False, True),
        ),
    ],
)
def test_a_host_gets_only_what_it_lacks(
    notes: Manifest | None, facts: dict[str, str], is_seen: bool, expected: tuple[str, bool, bool]
) -> None:
    output = "".join(f"{n}\t{v}\n" for n, v in {**HEALTHY, **facts}.items())
    machine = Machine(Host("gpu-1"), Ssh(), replace(parse_facts(output), manifest=notes))
    todo = plan(machine, NOTES, {"id": "gpu-1"} if is_seen else None)
    assert (todo.result, todo.needs_token, todo.restarts) == expected


@dataclass
class PlayedSsh:
    """A program `ssh` on PATH that records its arguments and input, and gives a set answer."""

    folder: Path

    def answer(self, status: int, out: str = "", err: str = "") -> None:
        (self.folder / "out").write_text(out)
        (self.folder / "err").write_text(err)
        (self.folder / "status").write_text(str(status))

    @property
    def arguments(self) -> list[str]:
        return (self.folder / "arguments").read_text().splitlines()

    @property
    def input(self) -> bytes:
        return (self.folder / "input").read_bytes()


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedSsh:
    played = PlayedSsh(tmp_path)
    program = tmp_path / "ssh"
    program.write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/arguments\ncat > {tmp_path}/input\n"
        f"cat {tmp_path}/out\ncat {tmp_path}/err >&2\nexit $(cat {tmp_path}/status)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    played.answer(0)
    return played


def test_ssh_gets_the_options_of_the_host_and_checks_host_keys(
    ssh: PlayedSsh, tmp_path: Path
) -> None:
    (tmp_path / "key").touch()
    host = Host("gpu-1", user="ubuntu", port="2222", key=str(tmp_path / "key"))
    Ssh(["ProxyJump=bastion"]).run(host, "true", b"", 10)
    arguments = " ".join(ssh.arguments)
    assert f"-l ubuntu -p 2222 -i {tmp_path}/key -o IdentitiesOnly=yes -- gpu-1 true" in arguments
    assert "-o BatchMode=yes" in arguments
    assert "-o ProxyJump=bastion" in arguments
    assert "StrictHostKeyChecking" not in arguments


def test_new_host_keys_are_accepted_on_request_only(ssh: PlayedSsh) -> None:
    Ssh(accept_new=True).run(Host("gpu-1"), "true", b"", 10)
    assert "StrictHostKeyChecking=accept-new" in ssh.arguments


@pytest.mark.parametrize(
    ("message", "cause", "fix"),
    [
        ("Host key verification failed.", "its host key is unknown", "--accept-new-host-keys"),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "its host key differs from the known one",
            "ssh-keygen -R [gpu-1]:2222",
        ),
        (
            "ubuntu@gpu-1: Permission denied (publickey).",
            "SSH refused the login",
            "`ssh -p 2222 ubuntu@gpu-1`",
        ),
        (
            "ssh: Could not resolve hostname gpu-1: Name or service not known",
            "its name is unknown",
            "address=",
        ),
        ("ssh: connect to host gpu-1 port 2222: Connection refused", "nothing listens", "port="),
        (
            "ssh: connect to host gpu-1 port 2222: Connection timed out",
            "does not answer",
            "firewalls",
        ),
        ("kex: no matching cipher", "SSH failed: kex: no matching cipher", "try `ssh -p 2222"),
    ],
)
def test_a_failed_connection_names_cause_and_fix(
    ssh: PlayedSsh, message: str, cause: str, fix: str
) -> None:
    ssh.answer(255, err=message)
    with pytest.raises(HostFailed) as failure:
        Ssh().run(Host("gpu-1", user="ubuntu", port="2222"), "true", b"", 10)
    assert cause in failure.value.cause
    assert fix in failure.value.fix


TOKEN = "join-of-the-test"
SOFTWARE = Software(
    "determined_serverless-0.2.0-py3-none-any.whl", b"wheel", b"pyyaml==6.0", ("pyyaml",)
)


class PlayedApi:
    """The requests of `det agent join` to the cluster. The agent is seen after the host ran the script."""

    def __init__(self, agent: Callable[[], Mapping[str, Any]]) -> None:
        self.agent = agent
        self.changes: list[tuple[str, str]] = []

    def get(self, path: str) -> Any:
        return {"agent": self.agent()}

    def post(self, path: str, body: object = None) -> Any:
        self.changes.append(("POST", path))
        return {"agentToken": {"id": 9, "token": TOKEN}}

    def request(self, method: str, path: str) -> None:
        self.changes.append((method, path))


def joined(ssh: PlayedSsh, machine: Machine, agents: list[str]) -> tuple[Any, PlayedApi]:
    """Join a host whose agent registers at these times."""
    times = iter(agents)
    api = PlayedApi(lambda: {"registeredTime": next(times), "enabled": True})
    session: Any = api
    fleet = Fleet(
        session,
        Ssh(),
        CLUSTER,
        Trust(),
        lambda text: None,
        join_timeout_s=5.0,
        sleep=lambda s: None,
    )
    return join(fleet, SOFTWARE, machine), api


def machine_of(notes: Manifest | None, **facts: str) -> Machine:
    output = "".join(f"{n}\t{v}\n" for n, v in {**HEALTHY, **facts}.items())
    return Machine(Host("gpu-1", pool="gpus"), Ssh(), replace(parse_facts(output), manifest=notes))


def test_secrets_travel_on_standard_input_and_never_in_arguments(ssh: PlayedSsh) -> None:
    outcome, _ = joined(ssh, machine_of(None), ["before", "after"])
    assert outcome.result == "joined"
    with tarfile.open(fileobj=io.BytesIO(ssh.input)) as files:
        token = files.extractfile("token")
        assert token is not None
        assert token.read().decode() == TOKEN
        assert {entry.mode for entry in files} == {0o600}
        others = b"".join(
            (files.extractfile(n) or io.BytesIO()).read()
            for n in ("agent.yaml", "fleet.json", "settings")
        )
    assert TOKEN.encode() not in others
    assert not any(TOKEN in argument for argument in ssh.arguments)


def test_an_upgrade_needs_no_new_token(ssh: PlayedSsh) -> None:
    machine = machine_of(NOTES, has_token="yes", active="yes")
    outcome, api = joined(ssh, machine, ["before", "before", "after"])
    assert (outcome.result, outcome.detail, api.changes) == ("upgraded", "0.1.0 to 0.2.0", [])


def test_a_failed_step_is_named_and_its_new_token_is_revoked(ssh: PlayedSsh) -> None:
    ssh.answer(
        1,
        "det-agent-join: files\ndet-agent-join: libraries\n",
        "WARNING: x\nERROR: No matching distribution\n",
    )
    outcome, api = joined(ssh, machine_of(None), ["before"])
    assert outcome.result == "failed"
    assert outcome.cause == "step 'libraries' failed: ERROR: No matching distribution"
    assert "package index" in outcome.fix
    assert api.changes[-1] == ("DELETE", "/api/v1/agent-tokens/9")


def test_an_agent_that_does_not_join_is_explained_by_its_log(
    ssh: PlayedSsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh.answer(
        0, "INFO start\nWARNING the cluster refused: no such pool; trying again: the pool is gone\n"
    )
    clock = iter(range(100))
    monkeypatch.setattr("det_cli.fleet.joining.time.monotonic", lambda: float(next(clock)))
    outcome, _ = joined(ssh, machine_of(None), ["same"] * 20)
    assert outcome.cause == "the agent was started and did not join within 5 s: the pool is gone"
    assert "journalctl -u det-agent" in outcome.fix


def test_a_host_that_another_command_prepares_is_left_alone(ssh: PlayedSsh) -> None:
    ssh.answer(75, "det-agent-join: locked\n")
    outcome, _ = joined(ssh, machine_of(None), ["before"])
    assert outcome.cause == "another `det agent join` works on it"


def test_an_error_of_the_api_fails_one_host_and_not_the_others() -> None:
    def work(machine: Machine) -> Outcome:
        if machine.host.name == "gpu-1":
            raise APIError(500, "try again later")
        return Outcome(machine.host.name, "joined")

    machines = [replace(machine_of(None), host=Host(name)) for name in ("gpu-1", "gpu-2")]
    session: Any = None
    fleet = Fleet(session, Ssh(), CLUSTER, Trust(), lambda text: None)
    failed, done = fleet.each(work, [*machines])
    assert (failed.result, failed.cause) == (
        "failed",
        "the cluster did not accept a step: try again later",
    )
    assert done.result == "joined"
