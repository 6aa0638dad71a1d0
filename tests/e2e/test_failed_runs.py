"""Messages for users when training code fails."""

from pathlib import Path

from tests.support.cluster import Cluster

CONFIG = """
entrypoint: exit 3
max_restarts: 0
searcher: {name: single, metric: loss}
"""


def test_log_of_a_failed_run_ends_with_its_exit_code(cluster: Cluster, tmp_path: Path) -> None:
    config, code = tmp_path / "fails.yaml", tmp_path / "code"
    config.write_text(CONFIG)
    code.mkdir()
    (code / "readme").write_text("nothing to see")
    experiment_id = cluster.create(config, code)
    assert cluster.until_state(experiment_id, "ERROR") == "ERROR"
    log = cluster.logs(int(cluster.trials(experiment_id)[0]["id"]))
    assert (
        "resources failed with non-zero exit code: container failed with non-zero exit code: 3"
        in log
    )
