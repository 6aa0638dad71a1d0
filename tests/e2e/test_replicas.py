"""A program without torch continues from its state in memory after a crash, in a process and in Docker."""

from pathlib import Path

from tests.support.cluster import Cluster

CODE = Path(__file__).parent / "replicated"


def test_crashed_program_continues_from_its_state_in_memory(cluster: Cluster) -> None:
    experiment_id = cluster.train(CODE / "replicated.yaml", CODE)
    (trial,) = cluster.trials(experiment_id)
    log = cluster.logs(int(trial["id"]))
    assert "starts after step 0 with None" in log
    assert "starts after step 13 with b'state 13'" in log
    assert trial["restarts"] == 1
