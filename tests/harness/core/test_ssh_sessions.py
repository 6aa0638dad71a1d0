"""What launchers find in a container that they enter by ssh."""

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
    """Enter by ssh, as a launcher does that has recorded its environment."""
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


def test_a_session_has_the_environment_and_directory_of_its_container(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_ssh()
    monkeypatch.setenv("DET_HPARAMS", '{"a": "it\'s $HOME"}')
    _place.record(os.environ)
    done = enter('echo "$DET_HPARAMS"; pwd; echo "$SSH_ORIGINAL_COMMAND"; exit 5')
    assert done.stdout.splitlines() == ['{"a": "it\'s $HOME"}', str(run_dir.parent), ""]
    assert done.returncode == 5


@pytest.mark.skipif(
    os.geteuid() != 0, reason=skips.because("only root reads /etc/shadow", skips.AS_ROOT)
)
def test_root_without_a_password_is_let_in() -> None:
    """A mount namespace has an account of root as in images of Red Hat's kind."""
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
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode == 99 or "unshare failed" in done.stderr:
        skips.skip("this machine allows no mount namespaces", "a machine or container that does")
    assert done.stdout == "inside\n\n", done.stderr


def test_a_launcher_within_a_launcher_calls_the_installed_ssh() -> None:
    require_ssh()
    once = _ssh.reach_peers(ALONE, os.environ)
    assert once is not None
    assert _ssh.reach_peers(ALONE, once) is not None
    assert (
        str(_ssh_files.path("bin")) not in Path(_ssh_files.path("bin/ssh")).read_text().split()[2]
    )


def test_an_image_without_an_ssh_client_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ssh.reach_peers(TWO, {"PATH": "/nowhere"}) is None
    assert "install openssh-client" in capsys.readouterr().err


def test_ranks_of_another_container_have_their_own_container_s_values(tmp_path: Path) -> None:
    own = {"DET_SLOT_IDS": "[2]", "DET_MASTER": "http://here:1", "CUDA_VISIBLE_DEVICES": "GPU-c"}
    place = _place.record({**own, "PATH": "/own"})
    chief = {"DET_SLOT_IDS": "[0]", "DET_MASTER": "http://there:1", "CUDA_VISIBLE_DEVICES": "GPU-a"}
    exported = {**chief, "HOROVOD_RANK": "3", "DET_CHIEF_IP": "c", _place.PLACE: "/of/the/chief"}
    found = _place.at_home({**exported, _place.ENTERED: place})
    assert found == {**own, "HOROVOD_RANK": "3", "DET_CHIEF_IP": "c"}


@pytest.mark.parametrize(
    ("own", "chosen", "expected"),
    [("GPU-a,GPU-b", "0,1", "GPU-a,GPU-b"), ("GPU-a,GPU-b", "1", "GPU-b"), ("GPU-a", "0,1", "GPU-a"),
     ("4,5", "0", "4"), ("void", "", "void")],
)  # fmt: skip
def test_launchers_choose_devices_among_those_of_the_container(
    own: str, chosen: str, expected: str
) -> None:
    place = _place.record({"CUDA_VISIBLE_DEVICES": own})
    found = _place.at_home({"CUDA_VISIBLE_DEVICES": chosen, _place.PLACE: place})
    assert found["CUDA_VISIBLE_DEVICES"] == expected


def test_a_rank_that_nobody_moved_stays_where_it_is() -> None:
    assert _place.at_home({"RANK": "1", "DET_SLOT_IDS": "[0]"}) == {
        "RANK": "1",
        "DET_SLOT_IDS": "[0]",
    }


def test_words_go_through_a_shell_unchanged() -> None:
    show = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]
    sent = " ".join(_encoded.through_shells([*show, *AWKWARD]))
    out = subprocess.run(["sh", "-c", sent], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == AWKWARD
    assert _encoded.through_shells(["python3", "train.py", "--lr=0.1"]) == [
        "python3",
        "train.py",
        "--lr=0.1",
    ]


def test_horovodrun_enters_a_container_on_the_chief_s_machine() -> None:
    assert horovod._distinct(["10.0.0.1", "10.0.0.2"]) == ["10.0.0.1", "10.0.0.2"]
    if sys.platform == "linux":
        assert horovod._distinct(["10.0.0.1", "10.0.0.1"]) == ["10.0.0.1", "127.0.0.2"]


def test_deepspeed_is_told_containers_by_name() -> None:
    assert deepspeed.hostfile(TWO) == "container-0 slots=2\ncontainer-1 slots=2\n"


class Nodes:
    """Runs `pdsh` of ours, whose ssh is a script that runs the command here."""

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


def test_every_node_gets_its_number_and_only_others_are_entered(nodes: Nodes) -> None:
    done = nodes.run("-w", "container-0,container-1", "echo", "[rank=0]", "node=%n", "of", "%h")
    assert sorted(done.stdout.splitlines()) == [
        "[rank=0] node=0 of container-0",
        "[rank=0] node=1 of container-1",
    ]
    assert done.stderr == "entered container-1\n"
    assert done.returncode == 0


@pytest.mark.parametrize("failing", [0, 1])
def test_when_one_node_fails_the_other_is_stopped(nodes: Nodes, failing: int) -> None:
    command = f"if [ %n = {failing} ]; then exit 7; fi; sleep 600; echo never"
    done = nodes.run("-w", "container-0,container-1", command)
    assert done.returncode == 7
    assert f"node {failing} failed with status 7; stopping nodes {1 - failing}" in done.stderr


def test_nodes_may_be_left_out() -> None:
    asked: Sequence[str] = ["-w", "a,b", "-x", "b", "-w", "c", "true"]
    assert _pdsh.request(asked) == (["a", "c"], "true")
