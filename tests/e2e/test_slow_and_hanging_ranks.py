"""Slow and hanging ranks on whole clusters: two agents with two slots each, gloo between them."""

import re
from pathlib import Path

import pytest

from tests.e2e.conftest import Layout, in_processes
from tests.support import ml
from tests.support.cluster import Cluster

pytestmark = pytest.mark.slow
CODE = Path(__file__).parent / "slow_ranks"


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(agents=2, slots=2, task_defaults=ml.task_defaults("ml"))


def start(cluster: Cluster, *settings: str) -> int:
    options = [word for setting in settings for word in ("--config", setting)]
    return cluster.create(CODE / "slow.yaml", CODE, *options)


def finish(cluster: Cluster, experiment_id: int) -> str:
    """Wait until the trial has completed without a restart. Return its log."""
    state = cluster.until_state(experiment_id, "COMPLETED", "ERROR", timeout_s=480)
    (trial,) = cluster.trials(experiment_id)
    assert (state, trial["restarts"]) == ("COMPLETED", 0), cluster.logs(trial["id"])
    return cluster.logs(trial["id"])


@in_processes
def test_a_slow_rank_is_named_with_its_agent(cluster: Cluster) -> None:
    experiment = start(cluster, "hyperparameters.slowdown=0.3", "searcher.max_length.batches=2000")
    why = cluster.until(
        lambda: re.search(
            r"rank 3 on agent (\S+) is slow .*compute",
            cluster.det("why", "experiment", str(experiment)).out,
        ),
        "the slow rank is named",
    )
    assert why[1] in cluster.det("agent", "list").out
    assert "rank 3 on agent" in finish(cluster, experiment)


@in_processes
def test_a_hanging_run_shows_all_stacks_and_starts_again_uncharged(cluster: Cluster) -> None:
    experiment = start(cluster, "resources.hang_timeout=60", "hyperparameters.hang_at=150")
    log = finish(cluster, experiment)
    assert "No rank has made progress for" in log
    assert "wait_for_an_event_that_never_comes" in log
    assert log.count("No rank has made progress for") == 2, "once for each container"
    assert log.count("Current thread") == 4, "the stacks of each rank"
    assert "backward" in log, "the other ranks wait in the exchange of gradients"
    assert "it is killed; this does not count as a restart" in log.lower()
