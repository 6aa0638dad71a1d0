"""`det agent join` with real SSH: two hosts, one with systemd as its first process, join a cluster, work and leave."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import skips
from tests.support.cluster import Answer, Cluster, local_cluster
from tests.support.ssh_hosts import OTHER_USER, SYSTEMD, SshHost, ssh_hosts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0, reason=skips.because("only root may make namespaces", skips.AS_ROOT)
    ),
    pytest.mark.skipif(
        not SYSTEMD.exists(), reason=skips.because("there is no systemd", "apt-get install systemd")
    ),
]
INSTALLED = (
    "/opt/determined", "/etc/determined", "/var/lib/determined", "/etc/systemd/system/det-agent.service",
)  # fmt: skip
POOLS = "resource_pools: [{pool_name: default}, {pool_name: fleet}]"
CONFIG = """
name: on a host of the fleet
entrypoint: echo trained on $DET_AGENT_ID
searcher: {name: single, metric: loss, max_length: {batches: 1}}
resources: {slots_per_trial: 2, resource_pool: fleet}
max_restarts: 0
"""


OPTIONS = {
    "node-1": ("slots=artificial:2", "runtime=process"),
    "node-2": ("slots=artificial:1", "runtime=process", "service=process"),
}


@dataclass
class Fleet:
    cluster: Cluster
    hosts: dict[str, SshHost]
    key: Path
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def join(self, *args: str, known_keys: bool = True) -> Answer:
        """Run `det agent join` for all hosts."""
        file, known = self.cluster.folder / "hosts.txt", self.cluster.folder / "known_hosts"
        file.write_text(
            "\n".join(h.line(self.key, *self.options.get(h.name, ())) for h in self.hosts.values())
        )
        keys = "".join(h.known_hosts for h in self.hosts.values())
        known.write_text(keys if known_keys else "")
        return self.cluster.run(
            "agent", "join", "--ssh", str(file), "--pool", "fleet", "--ssh-option",
            f"UserKnownHostsFile={known}", *args, environ={"DET_USER": "admin"}, timeout_s=600,
        )  # fmt: skip

    def results(self, *args: str) -> dict[str, str]:
        answer = self.join("--json", *args)
        assert answer.code == 0, answer.out + answer.err
        return {row["host"]: row["result"] for row in answer.json()}

    def agents(self) -> dict[str, dict[str, Any]]:
        agents = self.cluster.get("/api/v1/agents")["agents"]
        return {a["id"]: a for a in agents if a["resourcePools"] == ["fleet"]}

    def tokens(self) -> list[dict[str, Any]]:
        answer = self.cluster.run("agent", "token", "list", "--json", environ={"DET_USER": "admin"})
        return [t for t in json.loads(answer.out) if "join node" in t["description"]]


@pytest.fixture(scope="module")
def empty_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with (
        ssh_hosts({"node-1": True, "node-2": False}) as (hosts, key),
        local_cluster(folder, runtime="process", slots=1, config=POOLS) as cluster,
    ):
        yield Fleet(cluster, hosts, key, dict(OPTIONS))


@pytest.fixture(scope="module")
def fleet(empty_fleet: Fleet) -> Fleet:
    """Join both hosts."""
    empty_fleet.options.update(OPTIONS)
    assert empty_fleet.results() == {"node-1": "joined", "node-2": "joined"}
    return empty_fleet


def test_check_reports_each_requirement_and_changes_nothing(empty_fleet: Fleet) -> None:
    answer = empty_fleet.join("--check", "--json")
    verdicts = {(row["host"], row["check"]): row["verdict"] for row in answer.json()}
    assert (answer.code, verdicts["node-1", "service"], verdicts["node-2", "service"]) == (
        0,
        "ok",
        "warning",
    )
    assert verdicts["node-1", "cluster"] == verdicts["node-2", "clock"] == "ok"
    assert "No such file" in empty_fleet.hosts["node-1"].run("ls /etc/determined")


def test_a_host_with_an_unknown_key_is_refused(empty_fleet: Fleet) -> None:
    answer = empty_fleet.join("--check", known_keys=False)
    assert answer.code == 1
    assert answer.out.count("its host key is unknown") == 2
    assert "connect once with `ssh -p" in answer.err


def test_a_user_without_sudo_is_refused(empty_fleet: Fleet) -> None:
    empty_fleet.options["node-2"] = (f"user={OTHER_USER}", "service=process")
    answer = empty_fleet.join("--check", "--json")
    causes = [row["cause"] for row in answer.json() if row["verdict"] == "failed"]
    assert f"{OTHER_USER} cannot run sudo without a password" in causes


def test_joined_hosts_are_agents_of_the_pool(fleet: Fleet) -> None:
    agents = fleet.agents()
    assert {name: len(agent["slots"]) for name, agent in agents.items()} == {
        "node-1": 2,
        "node-2": 1,
    }
    assert all(agent["productVersion"] for agent in agents.values())


def test_systemd_runs_the_unit_of_cloud_machines(fleet: Fleet) -> None:
    host = fleet.hosts["node-1"]
    assert host.run("systemctl is-enabled det-agent; systemctl is-active det-agent").split() == [
        "enabled",
        "active",
    ]
    path = "/etc/systemd/system/det-agent.service"
    assert host.run(f"systemd-analyze verify {path}") == ""
    unit = host.run(f"cat {path}")
    assert unit == host.run("/opt/determined/venv/bin/det-agent systemd-unit")


def test_only_root_reads_the_token(fleet: Fleet) -> None:
    for host in fleet.hosts.values():
        assert host.run("stat -c %a:%U /etc/determined/token").strip() == "600:root"
        token = host.run("cat /etc/determined/token").strip()
        assert token not in host.run("cat /etc/determined/agent.yaml /etc/determined/fleet.json")


def test_a_second_run_changes_nothing(fleet: Fleet) -> None:
    before = {name: a["registeredTime"] for name, a in fleet.agents().items()}
    tokens = fleet.tokens()
    assert fleet.results() == {"node-1": "already joined", "node-2": "already joined"}
    assert {name: a["registeredTime"] for name, a in fleet.agents().items()} == before
    assert fleet.tokens() == tokens
    assert len(tokens) == 2


def test_a_joined_host_trains(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "code").mkdir()
    experiment = fleet.cluster.train(tmp_path / "config.yaml", tmp_path / "code")
    (trial,) = fleet.cluster.trials(experiment)
    assert "trained on node-1" in fleet.cluster.logs(trial["id"])


def test_systemd_restarts_a_killed_agent(fleet: Fleet) -> None:
    before = fleet.agents()["node-1"]["registeredTime"]
    fleet.hosts["node-1"].run("systemctl kill --signal=KILL det-agent")
    fleet.cluster.until(
        lambda: fleet.agents().get("node-1", {}).get("registeredTime", before) != before,
        "the agent joined again",
    )


def test_a_run_starts_an_agent_that_ended(fleet: Fleet) -> None:
    fleet.hosts["node-2"].run("kill -9 $(cat /run/determined-agent.pid)")
    assert fleet.results() == {"node-1": "already joined", "node-2": "started"}


def test_a_changed_option_reaches_the_agent(fleet: Fleet) -> None:
    fleet.options["node-2"] = ("slots=artificial:3", "runtime=process", "service=process")
    assert fleet.results() == {"node-1": "already joined", "node-2": "changed"}
    assert len(fleet.agents()["node-2"]["slots"]) == 3


def test_one_failed_host_does_not_stop_the_others(fleet: Fleet) -> None:
    fleet.options["node-2"] = ("slots=artificial:3", "runtime=process")  # systemd is the default
    answer = fleet.join("--json")
    rows = {row["host"]: row for row in answer.json()}
    assert (answer.code, rows["node-1"]["result"], rows["node-2"]["result"]) == (
        1,
        "already joined",
        "failed",
    )
    assert rows["node-2"]["cause"] == "systemd does not run there"
    assert "service=process" in rows["node-2"]["fix"]
    assert "1 of 2 hosts failed" in answer.err


def test_removed_hosts_have_no_files_and_their_tokens_are_revoked(fleet: Fleet) -> None:
    assert fleet.results("--remove") == {"node-1": "removed", "node-2": "removed"}
    for host in fleet.hosts.values():
        left = host.run(f"ls -d {' '.join(INSTALLED)}")
        assert left.count("No such file") == len(INSTALLED), left
        assert "det-agent" not in host.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert all(token["revokedAt"] for token in fleet.tokens())
    assert fleet.results("--remove") == {"node-1": "not joined", "node-2": "not joined"}
