"""`det deploy up` rejects invalid options before any request to the account, and reports them by option name."""

from pathlib import Path

import pytest
from det_cli.actions import deploy_options
from det_controlplane.core.provision import catalog_aws

from tests.cli.conftest import Det
from tests.support.aws_account import Account
from tests.support.fake_terraform import FakeTerraform

WRONG_FILE = "name: x\nentrypoint: train.py\nsearcher: {name: single}\nhyperparameters: {}\n"


@pytest.fixture
def signed_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--region=mars-1", "--region: 'mars-1' is unknown"),
        ("--compute-agent-instance-type=z9.huge", "--compute-agent-instance-type: 'z9.huge' is unknown"),
        ("--compute-agent-instance-type=p3.2xlarge", "the default image does not support p3.2xlarge"),
        ("--aux-agent-instance-type=z9.huge", "--aux-agent-instance-type: 'z9.huge' is unknown"),
        ("--max-idle-agent-period=long", "--max-idle-agent-period: "),
        ("--spot-max-price=cheap", "--spot-max-price: must be an amount of dollars, 0 or more, not 'cheap'"),
        ("--var=nosuch=1", "--var nosuch: the stack has no such variable"),
        ("--initial-user-password=abc", "a password needs at least 8 characters"),
        ("--var=bucket=Bad_Bucket", "--var bucket=Bad_Bucket is not a valid bucket name"),
        ("--initial-user-password=alllower1", "a password needs an upper-case letter"),
    ],
)  # fmt: skip
def test_reports_invalid_options_by_name_without_an_account(
    det: Det, signed_out: None, option: str, message: str
) -> None:
    result = det(
        "deploy", "aws", "up", "--cluster-id", "box", "--region", "us-west-2", "--dry-run", option
    )
    assert (result.code, message in result.err) == (2, True), result.err
    assert result.err.count(message) == 1
    assert "resource_pools[" not in result.err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--region=mars-1", "--region: 'mars-1' is unknown"),
        ("--compute-agent-instance-type=z9-huge", "--compute-agent-instance-type: 'z9-huge' is unknown"),
        ("--gpu-type=nvidia-none", "--gpu-type: "),
        ("--var=bucket=Bad_Bucket", "--var bucket=Bad_Bucket is not a valid bucket name"),
        ("--initial-user-password=abc", "a password needs at least 8 characters"),
    ],
)  # fmt: skip
def test_reports_invalid_google_options_by_name_without_credentials(
    det: Det, home: Path, option: str, message: str
) -> None:
    at = ("--cluster-id", "lab", "--project-id", "acme")
    result = det("deploy", "gcp", "up", *at, "--dry-run", option)
    assert (result.code, message in result.err) == (2, True), result.err


def test_reports_the_path_of_an_invalid_configuration_value(
    det: Det, signed_out: None, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    config.write_text(
        "resource_pools: [{pool_name: p, provider: {type: aws, instance_type: z9.huge}}]\n"
    )
    at = ("--cluster-id", "box", "--region", "us-west-2")
    result = det("deploy", "aws", "up", *at, "--dry-run", "--config", config)
    assert "resource_pools[0].provider.instance_type: 'z9.huge' is unknown" in result.err


def test_lists_the_allowed_keys_once_for_another_kind_of_file(
    det: Det, signed_out: None, tmp_path: Path
) -> None:
    config = tmp_path / "experiment.yaml"
    config.write_text(WRONG_FILE)
    at = ("--cluster-id", "box", "--region", "us-west-2")
    result = det("deploy", "aws", "up", *at, "--dry-run", "--config", config)
    assert (result.code, result.err.count("allowed here: ")) == (2, 1), result.err
    assert "- entrypoint: is unknown\n" in result.err
    assert "- hyperparameters: is unknown; did you mean 'hyperparameter_importance'?" in result.err


def test_compares_a_minimum_with_the_stored_maximum(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    """Without the stored option, 7 would exceed the default maximum of 5."""
    account.has_cluster(max_dynamic_agents=10)
    result = det("deploy", "aws", "up", "--dry-run", "--min-dynamic-agents", "7", *account.where)
    assert result.code == 0, result.err
    assert "7 g4dn.xlarge, always kept by compute-pool" in result.out


@pytest.mark.parametrize(
    "path", ["resource_pools", "resource_pools[0].pool_name", "checkpoint_storage.bucket"]
)
def test_a_path_without_an_option_keeps_its_name(path: str) -> None:
    assert deploy_options._option_of(path) == path


def test_an_empty_list_reports_the_region_and_account(det: Det, account: Account) -> None:
    result = det("deploy", "aws", "list", *account.where[2:])
    message = "There are no clusters in us-west-2 of account 123456789012.\n"
    assert (result.code, result.out, result.err) == (0, "", message)


def test_stored_pools_replace_the_default_pools(
    det: Det, account: Account, terraform: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster is in a region without known machine types, and its pools rent in other regions."""
    at = ("--cluster-id", "box", "--region", "us-west-2", "--endpoint-url", account.url)
    provider = {"type": "aws", "region": "us-east-1", "instance_type": "g4dn.xlarge"}
    account.has_cluster(config={"resource_pools": [{"pool_name": "p", "provider": provider}]})
    monkeypatch.delitem(catalog_aws.REGIONS, "us-west-2")
    result = det("deploy", "aws", "up", "--dry-run", *at)
    assert result.code == 0, result.err
    output = det("deploy", "aws", "up", "--dry-run", "--forget-options", *at)
    assert (output.code, "--region: 'us-west-2' is unknown" in output.err) == (2, True)


def test_an_older_gpu_on_aws_needs_another_image(
    det: Det, account: Account, terraform: FakeTerraform, docker_hub: None, tmp_path: Path
) -> None:
    """AWS's default image has NVIDIA's open kernel modules, which do not support the V100."""
    config = tmp_path / "master.yaml"
    section = "type: aws, region: us-west-2, instance_types: [g5.xlarge, p3.2xlarge]"
    up = ("deploy", "aws", "up", "--dry-run", *account.where, "--config", config)
    config.write_text(f"resource_pools: [{{pool_name: gpus, provider: {{{section}}}}}]")
    result = det(*up)
    assert (result.code, "p3.2xlarge" in result.err, "image_id" in result.err) == (2, True, True)
    section += ", image_id: ami-0123456789abcdef0"
    config.write_text(f"resource_pools: [{{pool_name: gpus, provider: {{{section}}}}}]")
    assert "the default image does not support" not in det(*up).err
