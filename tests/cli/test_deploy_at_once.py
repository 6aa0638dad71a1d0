"""Two deployments of a cluster at once, and one that is stopped: Terraform itself, whose state and lock lie in S3."""

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

# Two resources, of which the second waits to be let go; no provider is needed.
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
    """Deployments of one cluster, each with a working folder of its own."""

    def __init__(self, folder: Path, account: Account) -> None:
        self.folder, self._account = folder, account
        (folder / "stacks/aws").mkdir(parents=True)
        (folder / "stacks/aws/main.tf").write_text(STACK.replace("FOLDER", str(folder)))

    def begin(self) -> "subprocess.Popen[str]":
        """Begin a deployment in a process of its own, and wait until it is in the middle."""
        (self.folder / "one").mkdir()
        words = [str(self.folder / "stacks"), str(self.folder / "one"), self._account.url]
        begun = subprocess.Popen(
            [sys.executable, "-c", DEPLOYMENT, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        assert eventually((self.folder / "begun").exists), begun.poll()
        return begun

    def another(self, name: str) -> Terraform:
        (self.folder / name).mkdir()
        mine = Terraform("aws", self.folder / name)
        mine.init(Aws("us-west-2", self._account.url).backend("box"))
        return mine

    def open_gate(self) -> None:
        (self.folder / "gate").touch()

    def locks(self) -> list[str]:
        listed = self._account.client("s3").list_objects_v2(Bucket=STATE_BUCKET).get("Contents", ())
        return [item["Key"] for item in listed if item["Key"].endswith(".tflock")]


@pytest.fixture
def deployments(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployments]:
    monkeypatch.setenv("DET_TERRAFORM", installed())
    monkeypatch.setenv("CHECKPOINT_DISABLE", "1")
    monkeypatch.setattr(program, "_PLACES", (tmp_path / "d/stacks",))
    account.make_bucket(STATE_BUCKET)
    made = Deployments(tmp_path / "d", account)
    yield made
    made.open_gate()


def test_a_second_deployment_is_refused_while_the_first_is_at_work(
    deployments: Deployments,
) -> None:
    first = deployments.begin()
    try:
        second = deployments.another("two")
        with pytest.raises(CommandError) as refused:
            second.apply({}, print)
        assert "another deployment of this cluster is at work: " in refused.value.cause
        assert f"{STATE_BUCKET}/box/state.tflock" in refused.value.hint
        assert deployments.locks() == ["box/state.tflock"]
    finally:
        deployments.open_gate()
        _, said = first.communicate(timeout=120)
    assert first.returncode == 0, said
    second.apply({}, print)
    assert second.resources() == ["terraform_data.first", "terraform_data.second"]


def test_a_deployment_that_is_stopped_keeps_what_it_made_and_goes_on(
    deployments: Deployments,
) -> None:
    first = deployments.begin()
    os.killpg(first.pid, signal.SIGINT)
    _, said = first.communicate(timeout=120)
    assert first.returncode == 1
    assert (
        "stopped in the middle of terraform apply; run the same command again: it goes on" in said
    )
    assert deployments.locks() == []
    deployments.open_gate()
    second = deployments.another("two")
    assert "terraform_data.first" in second.resources()
    second.apply({}, print)
    assert second.resources() == ["terraform_data.first", "terraform_data.second"]
