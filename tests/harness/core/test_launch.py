import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from determined.launch import _arguments, _peers, deepspeed, horovod, tensorflow, torch_distributed

from tests.support.fake_master import FakeMaster

TrialEnv = Callable[..., dict[str, str]]
TWO_BY_TWO = {"addresses": ["10.0.0.1", "10.0.0.2"], "rank": 1, "slots": [2, 2]}


def container(env: dict[str, str], rendezvous: dict[str, Any]) -> dict[str, str]:
    info = Path(env["DET_RUN_DIR"]) / "info"
    info.mkdir(parents=True, exist_ok=True)
    names = {"addresses": "addrs", "rank": "rank", "slots": "slot_counts"}
    peers = {f"container_{names[k]}": v for k, v in rendezvous.items()}
    (info / "rendezvous.json").write_text(json.dumps(peers))
    return {**os.environ, **env}


def launch(
    launcher: str, env: dict[str, str], *args: str, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"determined.launch.{launcher}", *args],
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def one_container(env: dict[str, str], slots: int) -> dict[str, str]:
    return container(env, {"addresses": ["127.0.0.1"], "rank": 0, "slots": [slots]})


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(code: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(code)
        return str(path)

    return write


def test_every_worker_knows_its_place_and_its_lines_carry_its_rank(
    trial_env: TrialEnv, script: Callable[[str], str]
) -> None:
    path = script("import os; print('local', os.environ['LOCAL_RANK'], os.environ['WORLD_SIZE'])")
    env = container(trial_env(C10D_PORT="29555"), TWO_BY_TWO)
    done = launch("torch_distributed", env, "--", "python3", path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[rank=2] local 0 4", "[rank=3] local 1 4"]


def test_the_chief_is_the_first_container(trial_env: TrialEnv) -> None:
    env = container(trial_env(C10D_PORT="29555"), TWO_BY_TWO)
    done = launch(
        "torch_distributed", env, "sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT $DET_CHIEF_IP"
    )
    assert "10.0.0.1:29555 10.0.0.1" in done.stdout


def test_a_lone_worker_replaces_the_launcher(trial_env: TrialEnv) -> None:
    done = launch(
        "torch_distributed", one_container(trial_env(), 1), "sh", "-c", "echo $RANK; exit 3"
    )
    assert (done.stdout, done.returncode) == ("0\n", 3)


def test_when_one_worker_fails_the_others_are_stopped(
    trial_env: TrialEnv, script: Callable[[str], str]
) -> None:
    path = script(
        "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(9)\ntime.sleep(600)\n"
    )
    done = launch("torch_distributed", one_container(trial_env(), 3), path, timeout=60)
    assert done.returncode == 9
    assert "rank 1 failed with status 9" in done.stderr


def test_signals_reach_every_worker(trial_env: TrialEnv) -> None:
    code = "trap 'echo caught; exit 4' USR1; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(
        [sys.executable, "-m", "determined.launch.torch_distributed", "sh", "-c", code],
        env=one_container(trial_env(), 2),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert sorted(process.stdout.readline() for _ in range(2)) == [
        "[rank=0] ready\n",
        "[rank=1] ready\n",
    ]
    process.send_signal(signal.SIGUSR1)
    out, _ = process.communicate(timeout=120)
    assert "caught" in out
    assert process.returncode == 4


def test_wrap_rank_reads_the_rank_from_a_variable(trial_env: TrialEnv) -> None:
    env = {**os.environ, "MY_RANK": "5"}
    done = launch("wrap_rank", env, "MY_RANK", "sh", "-c", r"printf 'a\nb\rc'; echo err >&2")
    assert done.stdout == "[rank=5] a\n[rank=5] b\n[rank=5] c\n"
    assert done.stderr == "[rank=5] err\n"


def test_wrap_rank_gives_back_the_status(trial_env: TrialEnv) -> None:
    assert launch("wrap_rank", dict(os.environ), "0", "sh", "-c", "exit 12").returncode == 12


@pytest.mark.parametrize(
    ("args", "overrides", "command"),
    [
        (
            ["--trial", "m:T"],
            [],
            [sys.executable, "-m", "determined.exec.harness", "--trial", "m:T"],
        ),
        (["--", "python3", "t.py", "--x"], [], ["python3", "t.py", "--x"]),
        (["train.py", "--", "y"], [], [sys.executable, "train.py", "--", "y"]),
        (["--max_restarts=1", "--", "a.sh"], ["--max_restarts=1"], ["a.sh"]),
        (["-v", "--", "a.sh", "--", "b"], ["-v"], ["a.sh", "--", "b"]),
    ],
)
def test_the_command_line_is_split(
    args: list[str], overrides: list[str], command: list[str]
) -> None:
    assert _arguments.parse("torch_distributed", args) == (overrides, command)


@pytest.mark.parametrize(
    "args", [[], ["--"], ["--trial", "no_class"], ["--trial", "m:T", "x"], ["-x"]]
)
def test_a_wrong_command_line_exits_with_status_2(args: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        _arguments.parse("torch_distributed", args)
    assert exited.value.code == 2


def test_torchrun_gets_the_overrides(trial_env: TrialEnv) -> None:
    peers = _peers.Peers(["a", "b"], [2, 2], 1)
    command = torch_distributed.torchrun_command(peers, ["--max_restarts=2"], ["x"])
    assert command.index("--max_restarts=2") > command.index("--max_restarts=0")
    assert "--node_rank=1" in command
    assert command[-3:] == ["determined.launch.wrap_rank", "RANK", "x"]


def test_deepspeed_workers_have_its_names(trial_env: TrialEnv) -> None:
    env = deepspeed.worker_env(_peers.Peers(["a", "b"], [2, 2], 1), 3, 1)
    names = ("RANK", "LOCAL_RANK", "CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE", "MASTER_ADDR")
    assert [env[n] for n in names] == ["3", "1", "1", "2", "2", "a"]


def test_horovodrun_is_told_hosts_slots_and_optimizations() -> None:
    peers = _peers.Peers(["a", "b"], [2, 4], 0)
    config = {"optimizations": {"tensor_fusion_threshold": 64}}
    command = horovod.horovodrun_command(peers, ["--verbose"], ["python3", "t.py"], config)
    assert command[:5] == ["horovodrun", "-np", "6", "-H", "a:2,b:4"]
    assert command[command.index("--fusion-threshold-mb") + 1] == "64"
    # Horovod's own half minute is short where a rank imports from a cold disk.
    assert command[command.index("--gloo-timeout-seconds") + 1] == "240"
    assert command[-4:] == ["determined.launch.wrap_rank", "HOROVOD_RANK", "python3", "t.py"]


def test_horovod_runs_what_horovodrun_starts(trial_env: TrialEnv, tmp_path: Path) -> None:
    """A stand-in for horovodrun starts the command once per rank."""
    stand_in = tmp_path / "bin" / "horovodrun"
    stand_in.parent.mkdir()
    stand_in.write_text(
        "#!/bin/sh\n"
        'count="$2"; while [ "$1" != "-m" ]; do shift; done\n'
        'i=0; while [ $i -lt $count ]; do HOROVOD_RANK=$i python3 "$@" || exit; i=$((i+1)); done\n'
    )
    stand_in.chmod(0o755)
    env = one_container(trial_env(), 2)
    env["PATH"] = f"{stand_in.parent}:{Path(sys.executable).parent}:{env['PATH']}"
    done = launch("horovod", env, "sh", "-c", "echo worker")
    assert done.stdout == "[rank=0] worker\n[rank=1] worker\n"


@pytest.mark.parametrize("words", [["autohorovod"], ["horovod", "--autohorovod"]], ids=" ".join)
def test_autohorovod_with_one_slot_is_the_bare_command(
    trial_env: TrialEnv, words: list[str]
) -> None:
    launcher, *options = words
    done = launch(launcher, one_container(trial_env(), 1), *options, "echo", "bare")
    assert done.stdout == "bare\n"


def test_a_container_without_the_launcher_program_says_so(trial_env: TrialEnv) -> None:
    env = {**one_container(trial_env(), 2), "PATH": "/nowhere"}
    done = launch("horovod", env, "echo", "x")
    assert done.returncode == 127
    assert "horovodrun" in done.stderr


def test_tensorflow_workers_find_each_other() -> None:
    peers = _peers.Peers(["10.0.0.1", "fd00::2"], [2, 2], 1)
    assert json.loads(tensorflow.tf_config(peers, 3333)) == {
        "cluster": {"worker": ["10.0.0.1:3333", "[fd00::2]:3333"]},
        "task": {"type": "worker", "index": 1},
    }


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--port", "4444", "t.py"], (4444, ["t.py"])),
        (["--port=4444", "--", "t.py"], (4444, ["--", "t.py"])),
        (["t.py", "--port", "5"], (3333, ["t.py", "--port", "5"])),
        ([], (3333, [])),
    ],
)
def test_tensorflow_workers_meet_at_the_port_of_the_command_line_or_of_the_agent(
    monkeypatch: pytest.MonkeyPatch, args: list[str], expected: tuple[int, list[str]]
) -> None:
    monkeypatch.setenv("C10D_PORT", "3333")
    assert tensorflow.split_port(args) == expected


@pytest.mark.parametrize("args", [["--port"], ["--port="], ["--port", "x", "t.py"]])
def test_a_port_that_is_no_number_exits_with_status_2(args: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        tensorflow.split_port(args)
    assert exited.value.code == 2


@pytest.mark.parametrize(
    "launcher", ["torch_distributed", "deepspeed", "horovod", "autohorovod", "tensorflow"]
)
def test_every_launcher_tells_how_it_is_used(launcher: str) -> None:
    done = launch(launcher, dict(os.environ), "--help")
    assert done.stdout.startswith(f"usage: python3 -m determined.launch.{launcher} [")
    assert done.returncode == 0
    wrong = launch(launcher, dict(os.environ), "-x")
    assert wrong.stderr.splitlines()[-1] == done.stdout.splitlines()[0]
    assert wrong.returncode == 2


def test_a_container_that_is_entered_by_ssh_needs_keys(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    done = launch("horovod", container(trial_env(), TWO_BY_TWO), "echo", "x")
    assert done.returncode == 80
    assert "torch_distributed" in done.stderr
