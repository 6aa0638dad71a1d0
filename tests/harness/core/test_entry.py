import base64
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from determined.common.exit_status import AGENT_AWAY
from determined.exec._hooks import find_hooks

from tests.support.fake_master import HANG_UP, FakeMaster

HARNESS = str(Path(__file__).parents[3] / "harness")
TrialEnv = Callable[..., dict[str, str]]


def context_of(files: dict[str, str]) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            tar.addfile(member, io.BytesIO(content.encode()))
    return base64.b64encode(buffer.getvalue()).decode()


def serve(master: FakeMaster, files: dict[str, str]) -> None:
    answer = {"b64Tgz": context_of(files)}
    master.on("GET", r"/api/v1/tasks/.*/context_directory", (200, answer))
    peers = {"rendezvousInfo": {"addresses": ["127.0.0.1"], "rank": 0, "slots": [1]}}
    master.on("GET", r".*/rendezvous", (200, peers))


def without_an_agent(env: dict[str, str]) -> dict[str, str]:
    """Return an environment without an agent, in which the entry script also copies lines to its own output."""
    variables = {name: value for name, value in env.items() if name != "DET_RUNTIME"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": HARNESS, **variables}


def run_entry(env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "determined.exec.entry", *args],
        env=without_an_agent(env),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_lines_are_shipped_but_not_copied_under_an_agent(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    serve(master, {})
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": HARNESS,
        **trial_env({"entrypoint": "echo once"}),
    }
    command = [sys.executable, "-m", "determined.exec.entry"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert result.stdout == ""
    assert master.log_lines() == [
        "New trial runner in (container container-1) on agent agent-1",
        "once",
    ]


def test_entrypoint_runs_in_context_and_its_lines_are_shipped(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    serve(master, {"train.py": "print('hello from the context')"})
    result = run_entry(trial_env({"entrypoint": "python3 train.py"}))
    assert result.returncode == 0, result.stderr
    assert "hello from the context" in result.stdout
    assert "hello from the context" in master.log_lines()


def test_det_is_on_path_of_entrypoint_and_startup_hooks(
    master: FakeMaster, trial_env: TrialEnv, tmp_path: Path
) -> None:
    serve(master, {"startup-hook.sh": "command -v det\n"})
    result = run_entry(trial_env({"entrypoint": "PYTHONPATH=/mine det --version"}))
    assert result.returncode == 0, result.stderr
    assert f"{tmp_path}/run/bin/det" in master.log_lines()
    assert any(line.startswith("det 0.38.1 ") for line in master.log_lines())


def test_exits_with_status_of_the_entrypoint(master: FakeMaster, trial_env: TrialEnv) -> None:
    serve(master, {})
    assert run_entry(trial_env({"entrypoint": ["sh", "-c", "exit 7"]})).returncode == 7


def test_exit_status_after_signal_is_128_plus_its_number(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    serve(master, {})
    assert run_entry(trial_env({"entrypoint": "kill -9 $$"})).returncode == 137


def test_full_disk_is_reported_in_one_line(
    master: FakeMaster, trial_env: TrialEnv, tmp_path: Path
) -> None:
    serve(master, {"train.py": "print(1)"})
    env = trial_env({"entrypoint": "python3 train.py"})
    (tmp_path / "run" / "workdir").mkdir()
    (tmp_path / "run" / "workdir" / "train.py").mkdir()
    assert run_entry(env).returncode == 1
    (line,) = master.log_lines()
    assert line.startswith("the task could not be prepared: ")
    assert "train.py" in line


@pytest.mark.parametrize("route", [r".*/context_directory", r".*/rendezvous"])
def test_first_request_is_retried_while_agent_restarts(
    master: FakeMaster, trial_env: TrialEnv, route: str
) -> None:
    serve(master, {})
    usual = {
        r".*/context_directory": {"b64Tgz": context_of({})},
        r".*/rendezvous": {"rendezvousInfo": {"addresses": ["127.0.0.1"], "rank": 0, "slots": [1]}},
    }[route]
    answers = iter([(HANG_UP, None), (503, {"message": "not yet"}), (HANG_UP, None)])
    master.on("GET", route, lambda request: next(answers, (200, usual)))
    result = run_entry(trial_env({"entrypoint": "exit 7"}))
    assert result.returncode == 7, result.stdout
    assert len(master.received("GET", route)) == 4


@pytest.mark.parametrize("route", [r".*/context_directory", r".*/rendezvous"])
def test_absent_agent_causes_reserved_exit_status(
    master: FakeMaster, trial_env: TrialEnv, route: str
) -> None:
    serve(master, {})
    master.on("GET", route, (HANG_UP, None))
    code = (
        "import sys; from determined.exec import _gateway, entry; _gateway.PATIENCE_S = 0.0;"
        " sys.exit(entry.main([]))"
    )
    env = without_an_agent(trial_env({"entrypoint": "exit 7"}))
    result = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == AGENT_AWAY, result.stdout
    assert any("did not answer for 0 s" in line for line in master.log_lines())


def test_reserved_exit_status_of_command_becomes_1(master: FakeMaster, trial_env: TrialEnv) -> None:
    serve(master, {})
    assert run_entry(trial_env({"entrypoint": f"exit {AGENT_AWAY}"})).returncode == 1
    assert master.log_lines()[-1] == "exit status 81 is reserved: it is reported as 1"


def test_unknown_command_exits_with_127(master: FakeMaster, trial_env: TrialEnv) -> None:
    serve(master, {})
    result = run_entry(trial_env({"entrypoint": ["no-such-command"]}))
    assert result.returncode == 127
    assert any("no-such-command" in line for line in master.log_lines())


@pytest.mark.parametrize("mark", ["", "[3]<stderr>:", "[1,3]<stderr>:"])
def test_rank_and_level_prefixes_become_fields(
    master: FakeMaster, trial_env: TrialEnv, mark: str
) -> None:
    """horovodrun and mpirun add their own prefixes before the rank."""
    serve(master, {})
    run_entry(trial_env({"entrypoint": f"echo '{mark}[rank=3] WARNING: careful' >&2"}))
    lines = [
        line
        for batch in master.received("POST", "/api/v1/task/logs")
        for line in batch.body["logs"]
    ]
    entry = next(line for line in lines if line["log"] == "careful\n")
    assert (entry["rank_id"], entry["level"], entry["stdtype"]) == (
        3,
        "LOG_LEVEL_WARNING",
        "stderr",
    )
    assert entry["task_id"] == "1.task"


def test_variables_of_startup_hooks_reach_the_entrypoint(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    serve(master, {"startup-hook.sh": "export FROM_CONTEXT=$FROM_POOL-and-context\nulimit -n 77\n"})
    pool_hook = base64.b64encode(b"export FROM_POOL='a b'").decode()
    env = trial_env(
        {"entrypoint": 'echo "$FROM_CONTEXT $(ulimit -n)"'}, DET_TASK_STARTUP_HOOK_B64=pool_hook
    )
    assert "a b-and-context 77" in run_entry(env).stdout


def test_deletion_of_checkpoints_does_not_run_a_hook_of_its_image(tmp_path: Path) -> None:
    hook = tmp_path / "startup-hook.sh"
    hook.touch()
    assert find_hooks({"DET_TASK_TYPE": "COMMAND"}, str(tmp_path)) == [str(hook)]
    assert find_hooks({"DET_TASK_TYPE": "CHECKPOINT_GC"}, str(tmp_path)) == []


def test_failed_startup_hook_prevents_the_entrypoint(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    serve(master, {"startup-hook.sh": "echo in the hook\nfalse\n"})
    result = run_entry(trial_env({"entrypoint": "echo never"}))
    assert result.returncode == 1
    assert "in the hook" in result.stdout
    assert "never" not in result.stdout


def test_rejects_context_that_leaves_its_directory(
    master: FakeMaster, trial_env: TrialEnv, tmp_path: Path
) -> None:
    serve(master, {"../../evil.txt": "x"})
    result = run_entry(trial_env({"entrypoint": "echo never"}))
    assert result.returncode == 1
    assert any("evil.txt" in line for line in master.log_lines())
    assert not list(tmp_path.rglob("evil.txt"))


def test_unwritable_storage_is_reported_before_training(
    master: FakeMaster, trial_env: TrialEnv, tmp_path: Path
) -> None:
    serve(master, {})
    (tmp_path / "a-file").write_text("")
    storage = {"type": "directory", "container_path": str(tmp_path / "a-file")}
    result = run_entry(trial_env({"entrypoint": "echo never", "checkpoint_storage": storage}))
    assert result.returncode == 1
    assert "never" not in result.stdout
    assert any("checkpoints cannot be saved" in line for line in master.log_lines())


def test_rendezvous_waits_for_missing_peers(master: FakeMaster, trial_env: TrialEnv) -> None:
    serve(master, {})
    peers = {"rendezvousInfo": {"addresses": ["10.0.0.1"], "rank": 0, "slots": [1]}}
    answers = iter([(504, {"message": "waiting"})])
    master.on("GET", r".*/rendezvous", lambda _: next(answers, (200, peers)))
    script = "import determined as d; print(d.get_cluster_info().container_addrs)"
    result = run_entry(trial_env({"entrypoint": [sys.executable, "-c", script]}))
    assert "['10.0.0.1']" in result.stdout


def test_info_files_have_exactly_the_fields_of_determineds_harness(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    serve(master, {})
    env = trial_env({"entrypoint": "true"}, DET_LATEST_CHECKPOINT="uuid-1")
    assert run_entry(env).returncode == 0
    info = Path(env["DET_RUN_DIR"]) / "info"
    cluster, trial, resources, peers = (
        json.loads((info / f"{name}.json").read_text())
        for name in ("cluster", "trial", "resources", "rendezvous")
    )
    assert cluster == {
        "master_url": master.url, "cluster_id": "cluster-1", "agent_id": "agent-1", "slot_ids": [0],
        "task_id": "1.task", "allocation_id": "1.task.1", "session_token": "token-1",
        "task_type": "TRIAL", "master_cert_name": None, "master_cert_file": None,
        "latest_checkpoint": "uuid-1",
    }  # fmt: skip
    assert trial.pop("config")["searcher"]["name"] == "single"
    assert trial == {
        "trial_id": 7, "experiment_id": 3, "trial_seed": 42, "hparams": {"lr": 0.1},
        "steps_completed": 0, "trial_run_id": 2, "debug": False, "inter_node_network_interface": None,
    }  # fmt: skip
    assert resources == {"gpu_uuids": []}
    assert peers == {
        "container_addrs": ["127.0.0.1"], "container_rank": 0, "container_slot_counts": [1],
    }  # fmt: skip


def test_trial_class_runs_in_trial_runner(master: FakeMaster, trial_env: TrialEnv) -> None:
    serve(master, {"model_def.py": "class MyTrial: pass\nprint('imported', MyTrial.__name__)"})
    result = run_entry(trial_env({"entrypoint": "model_def:MyTrial"}))
    assert "imported MyTrial" in result.stdout


def test_task_without_a_trial_runs_its_command(master: FakeMaster, trial_env: TrialEnv) -> None:
    serve(master, {})
    env = {k: v for k, v in trial_env(DET_TASK_TYPE="COMMAND").items() if "TRIAL_" not in k}
    assert "ran" in run_entry(env, "--", "echo", "ran").stdout
    assert not master.received("GET", r".*/rendezvous")


@pytest.mark.parametrize("name", ["TERM", "USR1"])
def test_signals_are_forwarded(master: FakeMaster, trial_env: TrialEnv, name: str) -> None:
    serve(master, {})
    script = f"trap 'echo caught; exit 5' {name}; echo ready; while :; do sleep 0.05; done"
    env = trial_env({"entrypoint": script})
    process = subprocess.Popen(
        [sys.executable, "-m", "determined.exec.entry"],
        env=without_an_agent(env),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "New trial runner" in process.stdout.readline()
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.Signals[f"SIG{name}"])
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 5
    assert "caught" in out
