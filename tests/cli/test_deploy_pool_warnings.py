"""`det deploy` warns of pools that rent elsewhere or nothing, and its template makes none of them."""

from pathlib import Path

import pytest
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


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ("--spot", "--spot-max-price", "0.01"),
            "an hour of its cheapest machine (g4dn.xlarge, spot) costs $0.24, and it may cost $0.01",
        ),
        (("--max-dynamic-agents", "0"), "pool compute-pool rents nothing: it may have 0 machines"),
    ],
)
def test_a_pool_whose_limits_leave_it_no_machine_is_told(
    det: Det, account: Account, terraform: FakeTerraform, given: tuple[str, ...], told: str
) -> None:
    ran = det("deploy", "aws", "up", "--dry-run", *given, *account.where)
    assert (ran.code, told in ran.err) == (0, True), ran.err
    assert "Busy, compute-pool rents nothing within its limits" in ran.out


def test_a_limit_above_the_price_is_not_warned_of(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    spot = ("--spot", "--spot-max-price", "0.3")
    ran = det("deploy", "aws", "up", "--dry-run", *spot, *account.where)
    assert (ran.code, "rents nothing" in ran.err) == (0, False), ran.err


def test_a_price_for_spot_machines_without_any_is_refused(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    ran = det("deploy", "aws", "up", "--dry-run", "--spot-max-price", "1", *account.where)
    assert (ran.code, "--spot-max-price has no meaning without --spot" in ran.err) == (2, True)


def test_a_price_for_the_spot_machines_of_the_last_time_is_taken(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster(spot=True)
    ran = det("deploy", "aws", "up", "--dry-run", "--spot-max-price", "1", *account.where)
    assert ran.code == 0, ran.err


def test_a_subnet_that_is_not_there_is_told_before_anything_is_made(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    subnet = ("--agent-subnet-id", "subnet-nope")
    ran = det("deploy", "aws", "up", "--yes", *subnet, *account.where)
    assert (ran.code, "us-west-2 has no subnet subnet-nope" in ran.err) == (1, True), ran.err
    assert terraform.calls("apply") == []
