"""The environment of ssh sessions that launchers open in other containers."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from determined.launch import _encoded, _pdsh, _place, _ssh, _ssh_files, deepspeed, horovod
from determined.launch._peers import Peers

from tests.support import skips
from tests.support.ssh import require_ssh

ALONE = Peers(["127.0.0.1"], [2], 0)
TWO = Peers(["10.0.0.1", "10.0.0.2"], [2, 2], 0)
AWKWARD = ["python3", "it's $HOME; %h", 'a "b"', "*", "", "plain"]


@pytest.fixture(autouse=True)
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DET_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("DET_ALLOCATION_ID", "1.a.1")
    monkeypatch.setenv("DET_PEER_KEY", "shared by the containers of one allocation")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def enter(command: str) -> subprocess.CompletedProcess[str]:
    """Open an ssh session, as a launcher does after it recorded its environment."""
    env = _ssh.reach_peers(ALONE, os.environ)
    assert env is not None
    return subprocess.run(
        ["ssh", "container-0", command],
        env={"PATH": env["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_session_has_environment_and_directory_of_its_container(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_ssh()
    monkeypatch.setenv("DET_HPARAMS", '{"a": "it\'s $HOME"}')
    _place.record(os.environ)
    result = enter('echo "$DET_HPARAMS"; pwd; echo "$SSH_ORIGINAL_COMMAND"; exit 5')
    assert result.stdout.splitlines() == ['{"a": "it\'s $HOME"}', str(run_dir.parent), ""]
    assert result.returncode == 5


@pytest.mark.skipif(
    os.geteuid() != 0, reason=skips.because("only root reads /etc/shadow", skips.AS_ROOT)
)
def test_root_with_a_locked_password_can_log_in() -> None:
    """A mount namespace provides a locked root account, as in Red Hat images."""
    require_ssh()
    code = (
        "from tests.harness.core import test_ssh_sessions as t; import os\n"
        "t._place.record(os.environ); print(t.enter('echo inside').stdout)"
    )
    script = (
        "sed 's/^root:[^:]*:/root:!locked:/' /etc/shadow > shadow && mount --bind shadow /etc/shadow || exit 99\n"
        f'exec {sys.executable} -c "$0"'
    )
    path = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if result.returncode == 99 or "unshare failed" in result.stderr:
        skips.skip("this machine allows no mount namespaces", "a machine or container that does")
    assert result.stdout == "inside\n\n", result.stderr


def test_nested_launcher_uses_the_installed_ssh() -> None:
    require_ssh()
    once = _ssh.reach_peers(ALONE, os.environ)
    assert once is not None
    assert _ssh.reach_peers(ALONE, once) is not None
    assert (
        str(_ssh_files.path("bin")) not in Path(_ssh_files.path("bin/ssh")).read_text().split()[2]
    )


def test_missing_ssh_client_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ssh.reach_peers(TWO, {"PATH": "/nowhere"}) is None
    assert "install openssh-client" in capsys.readouterr().err


def test_ranks_get_the_values_of_their_own_container(tmp_path: Path) -> None:
    container_env = {
        "DET_SLOT_IDS": "[2]",
        "DET_MASTER": "http://here:1",
        "CUDA_VISIBLE_DEVICES": "GPU-c",
    }
    place = _place.record({**container_env, "PATH": "/own"})
    chief = {"DET_SLOT_IDS": "[0]", "DET_MASTER": "http://there:1", "CUDA_VISIBLE_DEVICES": "GPU-a"}
    exported = {**chief, "HOROVOD_RANK": "3", "DET_CHIEF_IP": "c", _place.PLACE: "/of/the/chief"}
    rank_env = _place.at_home({**exported, _place.ENTERED: place})
    assert rank_env == {**container_env, "HOROVOD_RANK": "3", "DET_CHIEF_IP": "c"}


@pytest.mark.parametrize(
    ("own", "chosen", "expected"),
    [("GPU-a,GPU-b", "0,1", "GPU-a,GPU-b"), ("GPU-a,GPU-b", "1", "GPU-b"), ("GPU-a", "0,1", "GPU-a"),
     ("4,5", "0", "4"), ("void", "", "void")],
)  # fmt: skip
def test_chosen_device_numbers_map_to_the_containers_devices(
    own: str, chosen: str, expected: str
) -> None:
    place = _place.record({"CUDA_VISIBLE_DEVICES": own})
    rank_env = _place.at_home({"CUDA_VISIBLE_DEVICES": chosen, _place.PLACE: place})
    assert rank_env["CUDA_VISIBLE_DEVICES"] == expected


def test_local_rank_keeps_its_environment_and_directory() -> None:
    assert _place.at_home({"RANK": "1", "DET_SLOT_IDS": "[0]"}) == {
        "RANK": "1",
        "DET_SLOT_IDS": "[0]",
    }


def test_words_pass_through_a_shell_unchanged() -> None:
    show = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]
    command_line = " ".join(_encoded.through_shells([*show, *AWKWARD]))
    out = subprocess.run(
        ["sh", "-c", command_line], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(out) == AWKWARD
    assert _encoded.through_shells(["python3", "train.py", "--lr=0.1"]) == [
        "python3",
        "train.py",
        "--lr=0.1",
    ]


def test_horovodrun_connects_to_containers_on_the_chiefs_machine() -> None:
    assert horovod._distinct(["10.0.0.1", "10.0.0.2"]) == ["10.0.0.1", "10.0.0.2"]
    if sys.platform == "linux":
        assert horovod._distinct(["10.0.0.1", "10.0.0.1"]) == ["10.0.0.1", "127.0.0.2"]


def test_deepspeed_hostfile_has_container_names() -> None:
    assert deepspeed.hostfile(TWO) == "container-0 slots=2\ncontainer-1 slots=2\n"


class Nodes:
    """A runner of our `pdsh`, with an `ssh` script that runs the command locally."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bin"
        self.path.mkdir()
        ssh = self.path / "ssh"
        ssh.write_text('#!/bin/sh\nshift 2; echo "entered $1" >&2; exec sh -c "$2"\n')
        ssh.chmod(0o755)

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "determined.launch._pdsh", "-S", "-f", "1024", *args],
            env={**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path)


def test_nodes_get_numbers_and_only_remote_nodes_use_ssh(nodes: Nodes) -> None:
    result = nodes.run("-w", "container-0,container-1", "echo", "[rank=0]", "node=%n", "of", "%h")
    assert sorted(result.stdout.splitlines()) == [
        "[rank=0] node=0 of container-0",
        "[rank=0] node=1 of container-1",
    ]
    assert result.stderr == "entered container-1\n"
    assert result.returncode == 0


@pytest.mark.parametrize("failing", [0, 1])
def test_failed_node_stops_the_other(nodes: Nodes, failing: int) -> None:
    command = f"if [ %n = {failing} ]; then exit 7; fi; sleep 600; echo never"
    result = nodes.run("-w", "container-0,container-1", command)
    assert result.returncode == 7
    assert f"node {failing} failed with status 7; stopping nodes {1 - failing}" in result.stderr


def test_nodes_can_be_excluded() -> None:
    arguments: Sequence[str] = ["-w", "a,b", "-x", "b", "-w", "c", "true"]
    assert _pdsh.request(arguments) == (["a", "c"], "true")
