"""`det deploy aws` with pools that rent machines on Google Cloud, with fakes for Terraform and AWS."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from det_controlplane.entry.aws import packaging

from tests.cli.conftest import Det
from tests.support.aws_account import Account
from tests.support.fake_terraform import FakeTerraform


@pytest.fixture
def pool_on_google(tmp_path: Path) -> Path:
    provider = {
        "type": "gcp", "project": "acme", "region": "us-central1",
        "instance_type": {"machine_type": "g2-standard-8"},
    }  # fmt: skip
    path = tmp_path / "master.yaml"
    pools = [{"pool_name": "default", "provider": provider}]
    path.write_text(json.dumps({"resource_pools": pools}))
    return path


def test_pools_on_google_cloud_need_credentials(
    det: Det, account: Account, terraform: FakeTerraform, pool_on_google: Path
) -> None:
    result = det("deploy", "aws", "up", "--yes", "--config", pool_on_google, *account.where)
    assert result.code == 2
    assert (
        "a pool rents machines on Google Cloud, but the functions have no credentials" in result.err
    )
    assert "--google-credentials FILE" in result.err
    assert terraform.calls("init") == []


def test_rejects_a_service_account_key_for_functions(
    det: Det, account: Account, terraform: FakeTerraform, pool_on_google: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key.json"
    key.write_text('{"type": "service_account", "private_key": "-----BEGIN"}')
    options = ("--config", pool_on_google, "--google-credentials", key)
    result = det("deploy", "aws", "up", "--yes", *options, *account.where)
    assert (result.code, "is not a workload identity federation configuration" in result.err) == (
        2,
        True,
    )


def test_only_the_renting_function_contains_the_google_client(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    pool_on_google: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack: dict[str, Any] = {}

    def build(out: Path, files: dict[str, bytes], *, google: bool = False) -> Path:
        stack.update(files=files, google=google)
        for name in ("deployment.zip", "provision.zip"):
            (out / name).write_bytes(b"zip")
        return out / "deployment.zip"

    monkeypatch.setattr(packaging, "build", build)
    federation = tmp_path / "federation.json"
    federation.write_text('{"type": "external_account"}')
    options = ("--config", pool_on_google, "--google-credentials", federation)
    result = det("deploy", "aws", "up", "--dry-run", *options, *account.where)
    assert result.code == 0, result.err
    assert stack["google"] is True
    assert stack["files"]["gcp-credentials.json"] == federation.read_bytes()
    (plan,) = terraform.calls("plan")
    variables = plan["variables"]
    names = [Path(variables[name]).name for name in ("zip", "provision_zip", "keys_zip")]
    assert names == ["deployment.zip", "provision.zip", "keys.zip"]
    assert variables["google_credentials"] == "/var/task/gcp-credentials.json"
    assert variables["google_project"] == "acme"
    (pool,) = yaml.safe_load(stack["files"]["cluster.yaml"])["resource_pools"]
    assert "ubuntu-accelerator" in pool["provider"]["boot_disk_source_image"]
    assert "warning: machines of pool default on Google Cloud have no credentials" in result.err
