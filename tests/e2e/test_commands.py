"""Commands on a whole cluster, as people run them."""

import re
from pathlib import Path

from tests.support.cluster import ROOT, Cluster
from tests.support.ssh import require_ssh


def test_command_prints_its_output_and_exit_status(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("import os\nprint('kind', os.environ['DET_TASK_TYPE'])")
    result = cluster.run("cmd", "run", "-c", tmp_path, "python3", "hello.py")
    assert result.code == 0, result.err
    assert "kind COMMAND" in result.out
    assert "exited successfully with a zero exit code" in result.out
    failed_result = cluster.run("cmd", "run", "--config", "resources.slots=0", "echo gone; exit 7")
    assert (failed_result.code, "gone" in failed_result.out) == (7, True), failed_result.out


def test_running_command_is_listed_and_killed(cluster: Cluster) -> None:
    result = cluster.det("cmd", "run", "-d", "--config", "description=sleeper", "sleep 600")
    id = result.out.strip()

    def state() -> str:
        return str(cluster.det("cmd", "describe", id, "--json").json()["state"])

    cluster.until(lambda: state() == "RUNNING", "the command runs")
    assert "sleeper" in cluster.det("task", "list").out
    assert f"sleeper ({id})" in cluster.det("job", "list").out
    assert "runs on" in cluster.det("why", "task", id).out
    cluster.det("cmd", "kill", id)
    cluster.until(lambda: state() == "TERMINATED", "the command has ended")
    assert "killed" in cluster.det("cmd", "describe", id, "--json").json()["exitStatus"]
    assert "on request of" in cluster.det("cmd", "logs", id).out


def test_shell_is_opened_through_the_cluster_until_it_is_killed(
    cluster: Cluster,
) -> None:
    require_ssh()
    free = ("--config", "resources.slots=0")
    result = cluster.run("shell", "start", *free, "--", "echo kind $DET_TASK_TYPE; exit 3")
    assert (result.code, "kind SHELL" in result.out) == (3, True), result.out + result.err
    match = re.search(r"Launched shell (\S+)", result.out)
    assert match
    opened = cluster.run("shell", "open", match[1], "--", "echo again")
    assert (opened.code, opened.out) == (0, "again\n"), opened.err
    cluster.det("shell", "kill", match[1])
    cluster.until(
        lambda: cluster.get(f"/api/v1/shells/{match[1]}")["shell"]["exitStatus"], "its end"
    )
    ended_result = cluster.run("shell", "open", match[1], "--", "echo never")
    assert ended_result.code == 1
    assert "on request of" in ended_result.err


def test_only_an_idle_shell_ends_after_its_timeout(cluster: Cluster) -> None:
    require_ssh()
    short = ("--config", "resources.slots=0", "--config", "idle_timeout=15s")
    # Longer than its time-out: bytes of both directions are traffic, and so is the connection itself.
    busy = cluster.run(
        "shell", "start", *short, "--", "for n in $(seq 20); do echo $n; sleep 1; done"
    )
    assert (busy.code, busy.out.endswith("19\n20\n")) == (0, True), busy.out + busy.err
    match = re.search(r"Launched shell (\S+)", busy.out)
    assert match

    def ended() -> str:
        return str(cluster.get(f"/api/v1/shells/{match[1]}")["shell"]["exitStatus"])

    assert "nobody used it for 15s" in cluster.until(ended, "its end")
    assert "nobody used it for 15s" in cluster.det("shell", "logs", match[1]).out


def test_notebook_without_jupyter_reports_how_to_install_it(cluster: Cluster) -> None:
    off = ("--config", "environment.environment_variables=[DET_INSTALL_MISSING=0]")
    result = cluster.run("notebook", "start", "--config", "resources.slots=0", *off, "--no-browser")
    assert result.code == 1
    match = re.search(r"Launched notebook (\S+)", result.out)
    assert match
    log = cluster.det("notebook", "logs", match[1]).out
    assert "pip install jupyterlab" in log
    assert "Traceback" not in log


def test_task_tree_runs_and_a_task_is_paused_resumed_and_killed(cluster: Cluster) -> None:
    example = ROOT / "examples" / "generic_tasks"
    result = cluster.run("task", "create", example / "tree.yaml", "--context", example, "--follow")
    assert result.code == 0, result.out + result.err
    assert result.out.count(": COMPLETED") == 3
    assert "all 3 parts have ended" in result.out
    output = cluster.det(
        "task", "create", example / "tree.yaml", "--config", "entrypoint=[sleep, '600']"
    )
    id = output.out.removeprefix("Created task ").strip()

    def state() -> str:
        task_state = cluster.get(f"/api/v1/tasks/{id}")["task"]["taskState"]
        return str(task_state).removeprefix("GENERIC_TASK_STATE_")

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
