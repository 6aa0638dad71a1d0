"""`det deploy` warns about pools that rent in other regions or cannot rent, and its template causes no warning."""

from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Det
from tests.support.aws_account import Account
from tests.support.fake_terraform import FakeTerraform


def test_the_configuration_template_uses_the_region_of_the_cluster(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    """It once contained us-west-2 for clusters in every region."""
    config = tmp_path / "master.yaml"
    config.write_text(det("deploy", "aws", "dump-master-config-template").out)
    at = ("--cluster-id", "box", "--region", "eu-west-1", "--endpoint-url", account.url)
    result = det("deploy", "aws", "up", "--dry-run", "--config", config, *at)
    assert (result.code, "warning" in result.err) == (0, False), result.err
    assert "compute-pool costs $0.58 per machine and hour" in result.out  # the price in eu-west-1


def test_warns_about_a_pool_that_rents_only_in_other_regions(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    provider = {"type": "aws", "instance_type": "g4dn.xlarge", "region": "eu-west-1"}
    config.write_text(
        yaml.safe_dump({"resource_pools": [{"pool_name": "p", "provider": provider}]})
    )
    result = det("deploy", "aws", "up", "--dry-run", "--config", config, *account.where)
    assert result.code == 0, result.err
    message = "warning: pool p rents in eu-west-1, but the cluster and its bucket are in us-west-2"
    assert message in result.err


def test_does_not_warn_about_a_pool_that_also_rents_in_other_regions(
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
    result = det("deploy", "aws", "up", "--dry-run", "--config", config, *account.where)
    assert (result.code, "warning: pool p" in result.err) == (0, False), result.err


def test_dry_run_shows_the_bound_of_warm_machines(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    offer = {"type": "aws", "region": "us-west-2", "instance_types": ["g4dn.xlarge"]}
    warm = {"warm_instances": "auto", "max_warm_cost_per_day": 5}
    pool = {"pool_name": "p", "offers": [offer], **warm}
    config.write_text(yaml.safe_dump({"resource_pools": [pool]}))
    result = det("deploy", "aws", "up", "--dry-run", "--config", config, *account.where)
    assert result.code == 0, result.err
    assert "Warm machines of p cost at most $5.00 per day, and nothing while no work" in result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--spot", "--spot-max-price", "0.01"),
            "its cheapest machine (g4dn.xlarge, spot) costs $0.24 per hour, and its limit is $0.01",
        ),
        (
            ("--max-dynamic-agents", "0"),
            "pool compute-pool rents no machines: its max_instances is 0",
        ),
    ],
)
def test_warns_about_a_pool_with_limits_that_exclude_all_machines(
    det: Det, account: Account, terraform: FakeTerraform, options: tuple[str, ...], message: str
) -> None:
    result = det("deploy", "aws", "up", "--dry-run", *options, *account.where)
    assert (result.code, message in result.err) == (0, True), result.err
    assert "Busy, compute-pool can rent no machines within its limits" in result.out


def test_does_not_warn_about_a_limit_above_the_price(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    spot = ("--spot", "--spot-max-price", "0.3")
    result = det("deploy", "aws", "up", "--dry-run", *spot, *account.where)
    assert (result.code, "rents no machines" in result.err) == (0, False), result.err


def test_rejects_a_spot_price_without_spot_machines(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    result = det("deploy", "aws", "up", "--dry-run", "--spot-max-price", "1", *account.where)
    assert (result.code, "--spot-max-price has no meaning without --spot" in result.err) == (
        2,
        True,
    )


def test_accepts_a_spot_price_with_a_stored_spot_option(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster(spot=True)
    result = det("deploy", "aws", "up", "--dry-run", "--spot-max-price", "1", *account.where)
    assert result.code == 0, result.err


def test_reports_an_unknown_subnet_before_any_change(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    subnet = ("--agent-subnet-id", "subnet-nope")
    result = det("deploy", "aws", "up", "--yes", *subnet, *account.where)
    assert (result.code, "us-west-2 has no subnet subnet-nope" in result.err) == (1, True), (
        result.err
    )
    assert terraform.calls("apply") == []
