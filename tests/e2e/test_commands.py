"""Commands on a whole cluster, as people run them."""

import re
from pathlib import Path

from tests.support.cluster import Cluster


def test_a_command_prints_and_its_exit_status_comes_back(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("import os\nprint('kind', os.environ['DET_TASK_TYPE'])")
    ran = cluster.run("cmd", "run", "-c", tmp_path, "python3", "hello.py")
    assert ran.code == 0, ran.err
    assert "kind COMMAND" in ran.out
    assert "exited successfully with a zero exit code" in ran.out
    failed = cluster.run("cmd", "run", "--config", "resources.slots=0", "echo gone; exit 7")
    assert (failed.code, "gone" in failed.out) == (7, True), failed.out


def test_a_running_command_is_seen_and_killed(cluster: Cluster) -> None:
    launched = cluster.det("cmd", "run", "-d", "--config", "description=sleeper", "sleep 600")
    found = re.fullmatch(r"Launched command (\S+)\n", launched.out)
    assert found
    id = found[1]

    def state() -> str:
        return str(cluster.det("cmd", "describe", id, "--json").json()["state"])

    cluster.until(lambda: state() == "STATE_RUNNING", "the command runs")
    assert "sleeper" in cluster.det("task", "list").out
    assert f"sleeper ({id})" in cluster.det("job", "list").out
    assert "runs on" in cluster.det("why", "task", id).out
    cluster.det("cmd", "kill", id)
    cluster.until(lambda: state() == "STATE_TERMINATED", "the command has ended")
    assert "killed" in cluster.det("cmd", "describe", id, "--json").json()["exitStatus"]
    assert "on request of" in cluster.det("cmd", "logs", id).out
