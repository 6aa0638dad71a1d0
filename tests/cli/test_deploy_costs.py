"""The dry runs of `det deploy` tell what pools cost, also those that rent machines while nothing runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Det
from tests.support.aws_account import Account
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import Project


def test_an_idle_month_counts_the_machines_that_options_keep(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    kept = ("--compute-agent-instance-type", "g5.xlarge", "--min-dynamic-agents", "1")
    ran = det("deploy", "aws", "up", "--dry-run", *kept, *account.where)
    assert ran.code == 0, ran.err
    idle = next(line for line in ran.out.splitlines() if line.startswith("A month idle costs"))
    # 730 hours of $1.006 and of $0.192, Aurora of $0.06 that they keep awake, and $0.52 of the rest
    assert "about $918.86: 1 g5.xlarge that compute-pool always keeps $734.38" in idle
    assert "1 m5.xlarge that aux-pool always keeps $140.16" in idle
    assert "Aurora, awake as machines run $43.80" in idle
    assert "paused" not in idle


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"min_instances": 2}, "$1,513.08: 2 g5.xlarge that gpus always keeps $1,468.76"),
        ({"warm_instances": 1}, "1 g5.xlarge that gpus always keeps $734.38"),
        ({"warm_instances": 3, "max_instances": 1}, "1 g5.xlarge that gpus always keeps $734.38"),
        ({"min_instances": 2, "max_hourly_cost": 2}, "1 g5.xlarge that gpus always keeps $734.38"),
    ],
    ids=["min_instances", "warm_instances", "max_instances", "max_hourly_cost"],
)
def test_an_idle_month_counts_the_machines_that_a_configuration_keeps(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    tmp_path: Path,
    sizes: dict[str, Any],
    told: str,
) -> None:
    pool = {
        "pool_name": "gpus",
        "offers": [{"type": "aws", "region": "us-west-2", "instance_type": "g5.xlarge"}],
        **sizes,
    }
    config = tmp_path / "master.yaml"
    config.write_text(yaml.safe_dump({"resource_pools": [pool]}))
    ran = det("deploy", "aws", "up", "--dry-run", "--config", config, *account.where)
    assert ran.code == 0, ran.err
    assert told in ran.out


def test_an_idle_month_on_google_cloud_counts_machines_too(
    project: Project, terraform: FakeTerraform
) -> None:
    ran = project.up("--dry-run", "--min-dynamic-agents", "1")
    assert ran.code == 0, ran.err
    assert "1 n1-standard-8 that compute-pool always keeps $5" in ran.out
