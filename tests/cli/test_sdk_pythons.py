"""The SDK and the command line on the Python versions of task images."""

import os
import subprocess
from pathlib import Path

import pytest
from det_agent.harness_mount import find_payload, link_payload

from tests.support import pythons
from tests.support.fake_cluster import CKPT, FakeCluster, log_line

CODE = f"""
import sys
from determined.experimental import client
experiment = client.create_experiment({{"name": "x"}}, sys.argv[1])
assert experiment.id == 2
assert client.get_experiment(1).wait(interval=0) is client.ExperimentState.COMPLETED
trial = client.get_trial(10)
assert len(list(trial.iter_logs(follow=True))) == 1
target = trial.select_checkpoint(uuid="{CKPT}").download(sys.argv[1] + "/out", client.DownloadMode.MASTER)
print(sys.version_info[:2], target)
"""


@pytest.mark.parametrize("version", pythons.VERSIONS)
def test_sdk_runs_on_every_supported_python(
    request: pytest.FixtureRequest, tmp_path: Path, version: str
) -> None:
    python = pythons.require(version)  # before the fixture replaces the home directory
    cluster: FakeCluster = request.getfixturevalue("cluster")
    cluster.add(1)
    cluster.logs = [log_line(1, "one")]
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print(1)\n")
    (code / ".detignore").write_text("*.bin\n")
    (code / "weights.bin").touch()
    command = [python, "-W", "error", "-S", "-c", CODE, str(code)]
    # A task has the same search path: the harness, then the libraries that the agent provides.
    search_path = os.pathsep.join(map(str, link_payload(find_payload(), tmp_path / "payload")))
    env = {**os.environ, "PYTHONPATH": search_path, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert result.returncode == 0, result.stderr
    major, minor = version.split(".")
    assert result.stdout == f"({major}, {minor}) {code}/out\n"
    (submission,) = cluster.sent("POST", "/api/v1/experiments")
    assert [file["path"] for file in submission.body["modelDefinition"]] == ["train.py"]


@pytest.mark.parametrize("version", pythons.VERSIONS)
def test_command_line_requires_python_3_10_in_tasks(
    request: pytest.FixtureRequest, tmp_path: Path, version: str
) -> None:
    python = pythons.require(version)
    cluster: FakeCluster = request.getfixturevalue("cluster")
    cluster.add(1)
    search_path = os.pathsep.join(map(str, link_payload(find_payload(), tmp_path / "payload")))
    env = {**os.environ, "PYTHONPATH": search_path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-W", "error", "-S", "-m", "determined.cli", "e", "list", "--all", "--csv"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if version == "3.9":
        assert result.returncode == 1
        assert "needs Python 3.10 or newer" in result.stderr
        return
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1].startswith("1,")
