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


def test_workers_get_ranks_and_prefix_their_lines(
    trial_env: TrialEnv, script: Callable[[str], str]
) -> None:
    path = script("import os; print('local', os.environ['LOCAL_RANK'], os.environ['WORLD_SIZE'])")
    env = container(trial_env(C10D_PORT="29555"), TWO_BY_TWO)
    result = launch("torch_distributed", env, "--", "python3", path)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["[rank=2] local 0 4", "[rank=3] local 1 4"]


def test_first_container_is_the_chief(trial_env: TrialEnv) -> None:
    env = container(trial_env(C10D_PORT="29555"), TWO_BY_TWO)
    result = launch(
        "torch_distributed", env, "sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT $DET_CHIEF_IP"
    )
    assert "10.0.0.1:29555 10.0.0.1" in result.stdout


def test_single_worker_replaces_the_launcher(trial_env: TrialEnv) -> None:
    result = launch(
        "torch_distributed", one_container(trial_env(), 1), "sh", "-c", "echo $RANK; exit 3"
    )
    assert (result.stdout, result.returncode) == ("0\n", 3)


def test_failed_worker_stops_the_others(trial_env: TrialEnv, script: Callable[[str], str]) -> None:
    path = script(
        "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(9)\ntime.sleep(600)\n"
    )
    result = launch("torch_distributed", one_container(trial_env(), 3), path, timeout=60)
    assert result.returncode == 9
    assert "rank 1 failed with status 9" in result.stderr


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


def test_wrap_rank_reads_rank_from_variable(trial_env: TrialEnv) -> None:
    env = {**os.environ, "MY_RANK": "5"}
    result = launch("wrap_rank", env, "MY_RANK", "sh", "-c", r"printf 'a\nb\rc'; echo err >&2")
    assert result.stdout == "[rank=5] a\n[rank=5] b\n[rank=5] c\n"
    assert result.stderr == "[rank=5] err\n"


def test_wrap_rank_returns_status_of_command(trial_env: TrialEnv) -> None:
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
def test_splits_the_command_line(args: list[str], overrides: list[str], command: list[str]) -> None:
    assert _arguments.parse("torch_distributed", args) == (overrides, command)


@pytest.mark.parametrize(
    "args", [[], ["--"], ["--trial", "no_class"], ["--trial", "m:T", "x"], ["-x"]]
)
def test_wrong_command_line_exits_with_status_2(args: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        _arguments.parse("torch_distributed", args)
    assert exited.value.code == 2


def test_torchrun_gets_the_overrides(trial_env: TrialEnv) -> None:
    peers = _peers.Peers(["a", "b"], [2, 2], 1)
    command = torch_distributed.torchrun_command(peers, ["--max_restarts=2"], ["x"])
    assert command.index("--max_restarts=2") > command.index("--max_restarts=0")
    assert "--node_rank=1" in command
    assert command[-3:] == ["determined.launch.wrap_rank", "RANK", "x"]


def test_deepspeed_workers_have_deepspeed_variables(trial_env: TrialEnv) -> None:
    env = deepspeed.worker_env(_peers.Peers(["a", "b"], [2, 2], 1), 3, 1)
    names = ("RANK", "LOCAL_RANK", "CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE", "MASTER_ADDR")
    assert [env[n] for n in names] == ["3", "1", "1", "2", "2", "a"]


def test_horovodrun_gets_hosts_slots_and_optimizations() -> None:
    peers = _peers.Peers(["a", "b"], [2, 4], 0)
    config = {"optimizations": {"tensor_fusion_threshold": 64}}
    command = horovod.horovodrun_command(peers, ["--verbose"], ["python3", "t.py"], config)
    assert command[:5] == ["horovodrun", "-np", "6", "-H", "a:2,b:4"]
    assert command[command.index("--fusion-threshold-mb") + 1] == "64"
    # Horovod's default of half a minute is too short for a rank that imports from a slow disk.
    assert command[command.index("--gloo-timeout-seconds") + 1] == "240"
    assert command[-4:] == ["determined.launch.wrap_rank", "HOROVOD_RANK", "python3", "t.py"]


def test_horovod_launcher_runs_horovodrun(trial_env: TrialEnv, tmp_path: Path) -> None:
    """A fake horovodrun starts the command once for each rank."""
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
    result = launch("horovod", env, "sh", "-c", "echo worker")
    assert result.stdout == "[rank=0] worker\n[rank=1] worker\n"


@pytest.mark.parametrize("launcher", ["horovod", "autohorovod"])
def test_horovod_refuses_an_elastic_trial_with_one_sentence(
    trial_env: TrialEnv, launcher: str
) -> None:
    """A script may call the launcher, so that the entrypoint of the configuration does not name Horovod."""
    elastic = {"resources": {"slots_per_trial": 2, "min_slots_per_trial": 1}}
    result = launch(launcher, one_container(trial_env(elastic), 2), "echo", "x")
    assert result.returncode != 0
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert "min_slots_per_trial cannot be used with Horovod" in line


# Records its first option and the hostfile, and starts one rank.
FAKE_DEEPSPEED = """#!/bin/sh
echo "$1" >>"$RECORD"
if [ "$1" = --hostfile ]; then cat "$2" >>"$RECORD"; else echo "$2" >>"$RECORD"; fi
while [ "$1" != "-m" ]; do shift; done
RANK=0 exec python3 "$@"
"""


def test_deepspeed_restarts_with_the_ranks_of_the_remaining_containers(
    trial_env: TrialEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chief of three containers, then of two, then alone. A fake `deepspeed` records what it is told."""
    program, record = tmp_path / "bin" / "deepspeed", tmp_path / "record"
    program.parent.mkdir()
    program.write_text(FAKE_DEEPSPEED)
    program.chmod(0o755)
    monkeypatch.setenv("DET_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("RECORD", str(record))
    path = [str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", ":".join(path))
    recorded = []
    for addresses in (["10.0.0.1", "10.0.0.2", "10.0.0.3"], ["10.0.0.1", "10.0.0.3"], ["10.0.0.1"]):
        record.write_text("")
        peers = _peers.Peers(addresses, [2] * len(addresses), 0)
        command = deepspeed.deepspeed_command(peers, ["--force_multi"], ["echo", "trained"])
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        assert result.stdout == "[rank=0] trained\n"
        recorded.append(record.read_text().splitlines())
    nodes = [f"container-{i} slots=2" for i in range(3)]
    assert recorded == [["--hostfile", *nodes], ["--hostfile", *nodes[:2]], ["--num_gpus", "2"]]


def test_deepspeed_workers_have_the_numbers_of_the_remaining_ranks(
    trial_env: TrialEnv, script: Callable[[str], str]
) -> None:
    path = script(
        "import os; print(*(os.environ[n] for n in ('RANK', 'WORLD_SIZE', 'CROSS_SIZE')))"
    )
    elastic = {"resources": {"slots_per_trial": 3, "min_slots_per_trial": 1}}
    shown = []
    for slots in (3, 2, 1):
        env = one_container(trial_env(elastic, C10D_PORT="29555"), slots)
        result = launch("deepspeed", env, "--", "python3", path)
        assert result.returncode == 0, result.stderr
        shown.append(sorted(line.rpartition("] ")[2] for line in result.stdout.splitlines()))
    assert shown == [["0 3 1", "1 3 1", "2 3 1"], ["0 2 1", "1 2 1"], ["0 1 1"]]


@pytest.mark.parametrize("words", [["autohorovod"], ["horovod", "--autohorovod"]], ids=" ".join)
def test_autohorovod_with_one_slot_runs_the_command_directly(
    trial_env: TrialEnv, words: list[str]
) -> None:
    launcher, *options = words
    result = launch(launcher, one_container(trial_env(), 1), *options, "echo", "bare")
    assert result.stdout == "bare\n"


def test_missing_launcher_program_is_reported(trial_env: TrialEnv) -> None:
    env = {**one_container(trial_env(), 2), "PATH": "/nowhere"}
    result = launch("horovod", env, "echo", "x")
    assert result.returncode == 127
    assert "horovodrun" in result.stderr


def test_tensorflow_workers_get_tf_config() -> None:
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
def test_tensorflow_port_comes_from_command_line_or_agent(
    monkeypatch: pytest.MonkeyPatch, args: list[str], expected: tuple[int, list[str]]
) -> None:
    monkeypatch.setenv("C10D_PORT", "3333")
    assert tensorflow.split_port(args) == expected


@pytest.mark.parametrize("args", [["--port"], ["--port="], ["--port", "x", "t.py"]])
def test_non_numeric_port_exits_with_status_2(args: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        tensorflow.split_port(args)
    assert exited.value.code == 2


@pytest.mark.parametrize(
    "launcher", ["torch_distributed", "deepspeed", "horovod", "autohorovod", "tensorflow"]
)
def test_every_launcher_prints_its_usage(launcher: str) -> None:
    result = launch(launcher, dict(os.environ), "--help")
    assert result.stdout.startswith(f"usage: python3 -m determined.launch.{launcher} [")
    assert result.returncode == 0
    response = launch(launcher, dict(os.environ), "-x")
    assert response.stderr.splitlines()[-1] == result.stdout.splitlines()[0]
    assert response.returncode == 2


def test_ssh_launcher_without_keys_is_reported(master: FakeMaster, trial_env: TrialEnv) -> None:
    result = launch("horovod", container(trial_env(), TWO_BY_TWO), "echo", "x")
    assert result.returncode == 80
    assert "torch_distributed" in result.stderr
