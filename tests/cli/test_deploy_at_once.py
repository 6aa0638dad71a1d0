"""Concurrent and interrupted deployments of a cluster, with real Terraform and its state and lock in S3."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_cli.deployment import terraform as program
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.terraform import Terraform
from det_cli.errors import CommandError

from tests.support.aws_account import STATE_BUCKET, Account
from tests.support.processes import eventually
from tests.support.terraform import terraform as installed

# Two resources without a provider. The second resource waits until the gate file exists.
STACK = """
resource "terraform_data" "first" {}
resource "terraform_data" "second" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" {
    command = "touch FOLDER/begun; while [ ! -e FOLDER/gate ]; do sleep 0.1; done"
  }
}
"""
DEPLOYMENT = """
import sys
from pathlib import Path
from det_cli.deployment import terraform as program
from det_cli.deployment.aws_account import Aws
from det_cli.errors import CommandError

program._PLACES = (Path(sys.argv[1]),)
mine = program.Terraform("aws", Path(sys.argv[2]))
mine.init(Aws("us-west-2", sys.argv[3]).backend("box"))
try:
    mine.apply({}, print)
except CommandError as e:
    sys.exit(f"{e.cause}; {e.hint}")
"""


class Deployments:
    """Deployments of one cluster, each in its own working folder."""

    def __init__(self, folder: Path, account: Account) -> None:
        self.folder, self._account = folder, account
        (folder / "stacks/aws").mkdir(parents=True)
        (folder / "stacks/aws/main.tf").write_text(STACK.replace("FOLDER", str(folder)))

    def begin(self) -> "subprocess.Popen[str]":
        """Start a deployment in a separate process, and wait until it creates the second resource."""
        (self.folder / "one").mkdir()
        words = [str(self.folder / "stacks"), str(self.folder / "one"), self._account.url]
        process = subprocess.Popen(
            [sys.executable, "-c", DEPLOYMENT, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        assert eventually((self.folder / "begun").exists), process.poll()
        return process

    def another(self, name: str) -> Terraform:
        (self.folder / name).mkdir()
        stack = Terraform("aws", self.folder / name)
        stack.init(Aws("us-west-2", self._account.url).backend("box"))
        return stack

    def open_gate(self) -> None:
        (self.folder / "gate").touch()

    def locks(self) -> list[str]:
        objects = (
            self._account.client("s3").list_objects_v2(Bucket=STATE_BUCKET).get("Contents", ())
        )
        return [item["Key"] for item in objects if item["Key"].endswith(".tflock")]


@pytest.fixture
def deployments(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployments]:
    monkeypatch.setenv("DET_TERRAFORM", installed())
    monkeypatch.setenv("CHECKPOINT_DISABLE", "1")
    monkeypatch.setattr(program, "_PLACES", (tmp_path / "d/stacks",))
    account.make_bucket(STATE_BUCKET)
    result = Deployments(tmp_path / "d", account)
    yield result
    result.open_gate()


def test_rejects_a_second_deployment_while_the_first_runs(
    deployments: Deployments,
) -> None:
    first = deployments.begin()
    try:
        second = deployments.another("two")
        with pytest.raises(CommandError) as error:
            second.apply({}, print)
        assert "another deployment of this cluster is running: " in error.value.cause
        assert f"{STATE_BUCKET}/box/state.tflock" in error.value.hint
        assert deployments.locks() == ["box/state.tflock"]
    finally:
        deployments.open_gate()
        _, output = first.communicate(timeout=120)
    assert first.returncode == 0, output
    second.apply({}, print)
    assert second.resources() == ["terraform_data.first", "terraform_data.second"]


def test_continues_an_interrupted_deployment(
    deployments: Deployments,
) -> None:
    first = deployments.begin()
    os.killpg(first.pid, signal.SIGINT)
    _, output = first.communicate(timeout=120)
    assert first.returncode == 1
    assert "stopped during terraform apply; run the same command again to continue" in output
    assert deployments.locks() == []
    deployments.open_gate()
    second = deployments.another("two")
    assert "terraform_data.first" in second.resources()
    second.apply({}, print)
    assert second.resources() == ["terraform_data.first", "terraform_data.second"]
