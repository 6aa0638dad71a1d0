"""`det deploy` warns of pools that rent elsewhere or nothing, and its template makes none of them."""

from pathlib import Path

import yaml

from tests.cli.conftest import Det
from tests.support.aws_account import Account
from tests.support.fake_terraform import FakeTerraform


def test_the_configuration_to_begin_with_rents_where_the_cluster_is(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    """It named us-west-2, also for clusters elsewhere."""
    config = tmp_path / "master.yaml"
    config.write_text(det("deploy", "aws", "dump-master-config-template").out)
    at = ("--cluster-id", "box", "--region", "eu-west-1", "--endpoint-url", account.url)
    ran = det("deploy", "aws", "up", "--dry-run", "--config", config, *at)
    assert (ran.code, "warning" in ran.err) == (0, False), ran.err
    assert "compute-pool costs $0.58 an hour and machine" in ran.out  # as in eu-west-1


def test_a_pool_that_rents_only_in_other_regions_is_told(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    provider = {"type": "aws", "instance_type": "g4dn.xlarge", "region": "eu-west-1"}
    config.write_text(
        yaml.safe_dump({"resource_pools": [{"pool_name": "p", "provider": provider}]})
    )
    ran = det("deploy", "aws", "up", "--dry-run", "--config", config, *account.where)
    assert ran.code == 0, ran.err
    told = "warning: pool p rents in eu-west-1, while the cluster and its bucket are in us-west-2"
    assert told in ran.err


def test_a_pool_that_rents_in_other_regions_too_is_not_warned_of(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    provider = {
        "type": "aws",
        "instance_type": "g4dn.xlarge",
        "regions": ["us-west-2", "eu-west-1"],
    }
    config.write_text(
        yaml.safe_dump({"resource_pools": [{"pool_name": "p", "provider": provider}]})
    )
    ran = det("deploy", "aws", "up", "--dry-run", "--config", config, *account.where)
    assert (ran.code, "warning: pool p" in ran.err) == (0, False), ran.err
