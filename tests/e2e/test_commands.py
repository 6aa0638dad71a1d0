"""Commands on a whole cluster, as people run them."""

import re
from pathlib import Path

from tests.support.cluster import ROOT, Cluster


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


def test_a_tree_of_tasks_runs_and_another_is_paused_continued_and_killed(cluster: Cluster) -> None:
    example = ROOT / "examples" / "generic_tasks"
    ran = cluster.run("task", "create", example / "tree.yaml", "--context", example, "--follow")
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.count(": COMPLETED") == 3
    assert "all 3 parts have ended" in ran.out
    created = cluster.det(
        "task", "create", example / "tree.yaml", "--config", "entrypoint=[sleep, '600']"
    )
    id = created.out.removeprefix("Created task ").strip()

    def state() -> str:
        found = cluster.get(f"/api/v1/tasks/{id}")["task"]["taskState"]
        return str(found).removeprefix("GENERIC_TASK_STATE_")

    def runs() -> bool:
        allocations = cluster.get(f"/api/v1/tasks/{id}")["task"]["allocations"]
        return bool(allocations[0]["state"] == "STATE_RUNNING")

    cluster.until(runs, "the task runs")
    cluster.det("task", "pause", id)
    cluster.until(lambda: state() == "PAUSED", "the task is paused")
    cluster.det("task", "unpause", id)
    cluster.until(runs, "the task runs again")
    cluster.det("task", "kill", id, "--root")
    cluster.until(lambda: state() == "CANCELED", "the task has ended")
