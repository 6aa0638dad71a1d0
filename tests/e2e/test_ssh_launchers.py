"""Launchers that start ranks in other containers by ssh: real sshd, real ssh, two agents with two slots each.

Horovod and DeepSpeed are the real ones, which `make test-all` runs. `ssh/bin/horovodrun` replaces Horovod's
launcher, and loads no framework.
"""

import functools
import json
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Layout
from tests.support import ml
from tests.support.cluster import Cluster, pids_with
from tests.support.ssh import require_ssh

HEAVY = pytest.mark.heavy("starts ranks by Horovod and DeepSpeed as by what stands in for them")
pytestmark = [
    pytest.mark.slow,
    HEAVY.with_args(ran="horovod"),
    HEAVY.with_args(ran="deepspeed"),
    HEAVY.with_args(launcher="horovod"),
]
CODE = Path(__file__).parent / "ssh"
# Characters that no shell may expand.
ARGUMENT = 'it\'s $HOME; %h "x"'
TOLD = re.compile(
    r"rank (\d) of 4, local (\d) of 2, container (\d), slots (\[.*\]), (\S+), in (\w+), argument (.*)"
)


@dataclass(frozen=True)
class TrialRecord:
    """An ended trial with the data that the cluster has about it."""

    id: int
    state: str
    restarts: int
    logs: list[dict[str, Any]]
    validation: dict[str, float]

    def told(self) -> list[tuple[int, re.Match[str]]]:
        matches = ((entry.get("rankId"), TOLD.match(entry["log"])) for entry in self.logs)
        return [(int(rank), match) for rank, match in matches if match and rank is not None]

    def text(self) -> str:
        return "\n".join(entry["log"] for entry in self.logs)


@pytest.fixture(scope="module")
def layout() -> Layout:
    require_ssh()
    # Ordinary users cannot mount a Python below /root, so an administrator mounts it for all.
    mounts = ml.task_defaults("ml")["bind_mounts"]
    return Layout(
        agents=2, slots=2, task_defaults={**Layout().task_defaults, "bind_mounts": mounts}
    )


def run(cluster: Cluster, entrypoint: list[str], **options: Any) -> TrialRecord:
    config = {
        "name": entrypoint[-2],
        "entrypoint": entrypoint,
        "searcher": {"name": "single", "metric": "loss"},
        "resources": {"slots_per_trial": 4},
        "max_restarts": 1,
        **options,
    }
    path = cluster.folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    experiment_id = cluster.create(path, CODE)
    state = cluster.until_state(experiment_id, "COMPLETED", "ERROR", timeout_s=360)
    trial = cluster.trials(experiment_id)[0]
    best = (trial.get("bestValidation") or {}).get("metrics", {}).get("avgMetrics", {})
    return TrialRecord(trial["id"], state, trial["restarts"], cluster.task_logs(trial["id"]), best)


def by_stand_in(cluster: Cluster) -> TrialRecord:
    """Rank 3 fails in the first run, while the others would run for ten minutes."""
    launch = 'PATH=$PWD/bin:$PATH exec python3 -m determined.launch.horovod --verbose -- "$@"'
    return run(cluster, ["bash", "-c", launch, "bash", "python3", "by_stand_in.py", ARGUMENT])


def by_horovod(cluster: Cluster) -> TrialRecord:
    """Rank 3 fails in the first run, while the others wait for it."""
    return run_with(cluster, "horovod", "--verbose", "by_horovod.py")


def by_deepspeed(cluster: Cluster) -> TrialRecord:
    return run_with(cluster, "deepspeed", "--log_level=info", "by_deepspeed.py")


def run_with(cluster: Cluster, framework: str, override: str, script: str) -> TrialRecord:
    defaults = ml.task_defaults(framework)
    return run(
        cluster,
        [
            "python3",
            "-m",
            f"determined.launch.{framework}",
            override,
            "--",
            "python3",
            script,
            ARGUMENT,
        ],
        environment={"environment_variables": defaults["environment_variables"]},
    )


@pytest.fixture(scope="module")
def ran_by(cluster: Cluster) -> Callable[[str], TrialRecord]:
    """Return the results of a launcher's trial on this cluster. It runs once for all tests."""
    launchers = {"horovod": by_horovod, "stand-in": by_stand_in, "deepspeed": by_deepspeed}
    return functools.cache(lambda launcher: launchers[launcher](cluster))


@pytest.fixture(params=["stand-in", "horovod", "deepspeed"])
def ran(request: pytest.FixtureRequest, ran_by: Callable[[str], TrialRecord]) -> TrialRecord:
    return ran_by(request.param)


def test_every_rank_has_its_ranks_and_its_log_lines_have_them(ran: TrialRecord) -> None:
    assert ran.state == "COMPLETED", ran.text()
    last = ran.told()[-4:]
    assert sorted(rank for rank, _ in last) == [0, 1, 2, 3]
    places = {rank: tuple(int(match[i]) for i in (1, 2, 3)) for rank, match in last}
    assert places == {0: (0, 0, 0), 1: (1, 1, 0), 2: (2, 0, 1), 3: (3, 1, 1)}


def test_ranks_over_ssh_have_the_environment_of_their_container(ran: TrialRecord) -> None:
    last = ran.told()[-4:]
    containers = {rank: match[5] for rank, match in last}
    assert containers[0] == containers[1] != containers[2] == containers[3]
    assert {match[4] for _, match in last} == {"[0, 1]"}
    assert {match[6] for _, match in last} == {"True"}


def test_command_arguments_reach_the_ranks_unchanged(ran: TrialRecord) -> None:
    assert {match[7] for _, match in ran.told()} == {repr(ARGUMENT)}


def test_token_and_configuration_are_not_on_a_command_line(ran: TrialRecord) -> None:
    assert "determined.launch.wrap_rank" in ran.text()
    assert "DET_SESSION_TOKEN" not in ran.text()
    assert "DET_EXPERIMENT_CONFIG" not in ran.text()


@pytest.mark.parametrize("launcher", ["stand-in", "horovod"])
def test_failed_rank_in_the_other_container_restarts_the_trial_once(
    ran_by: Callable[[str], TrialRecord], launcher: str
) -> None:
    result = ran_by(launcher)
    text = result.text()
    assert result.restarts == 1
    assert "Process 3 exit with status code 7" in text
    assert "(restart 1 of 1)" in text
    assert [rank for rank, _ in result.told()].count(3) == 2


@pytest.mark.parametrize("launcher", ["stand-in", "horovod"])
def test_ranks_of_both_containers_connect(
    ran_by: Callable[[str], TrialRecord], launcher: str
) -> None:
    result = ran_by(launcher)
    met = next(entry["log"] for entry in result.logs if entry["log"].startswith("met "))
    agents = dict(json.loads(met.removeprefix("met ")))
    assert sorted(agents) == [0, 1, 2, 3]
    assert agents[0] == agents[1] != agents[2] == agents[3]


@HEAVY
def test_horovod_ranks_reduce_over_gloo(ran_by: Callable[[str], TrialRecord]) -> None:
    result = ran_by("horovod")
    assert result.validation == {"loss": 1111.0}
    assert result.text().count("all_reduce gave 1111") == 4


@HEAVY
def test_horovod_ranks_exchange_values(
    ran_by: Callable[[str], TrialRecord],
) -> None:
    lines = (entry["log"].strip() for entry in ran_by("horovod").logs)
    gathered_lines = sorted(line for line in lines if line.startswith("gathered"))
    others = [f"gathered None, told from 0, here {here}" for here in ([0, 0], [1, 1], [1, 1])]
    assert gathered_lines == sorted(["gathered [0, 1, 0, 1], told from 0, here [0, 0]", *others])


@HEAVY
def test_deepspeed_ranks_reduce_over_gloo(ran_by: Callable[[str], TrialRecord]) -> None:
    result = ran_by("deepspeed")
    assert result.validation == {"loss": 1111.0}
    assert result.text().count("all_reduce gave 1111") == 4
    assert result.restarts == 0


def test_ssh_daemon_and_processes_end_with_the_chief(cluster: Cluster, ran: TrialRecord) -> None:
    port = int(re.findall(r"Server listening on 0\.0\.0\.0 port (\d+)", ran.text())[-1])
    assert cluster.get("/api/v1/tasks")["allocationIdToSummary"] == {}
    assert not pids_with(f"DET_TRIAL_ID={ran.id}", f"DET_CLUSTER_ID={cluster.cluster_id()}")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
