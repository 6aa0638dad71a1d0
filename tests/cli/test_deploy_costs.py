"""The dry runs of `det deploy` include the cost of machines that pools keep without work."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Det
from tests.support.aws_account import Account
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import Project


def test_the_idle_cost_includes_machines_from_options(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    options = ("--compute-agent-instance-type", "g5.xlarge", "--min-dynamic-agents", "1")
    result = det("deploy", "aws", "up", "--dry-run", *options, *account.where)
    assert result.code == 0, result.err
    idle = next(
        line for line in result.out.splitlines() if line.startswith("Idle, the cluster costs")
    )
    # 730 hours of $1.006 and of $0.192, Aurora at $0.06 per hour, and $0.52 for the other parts
    assert "about $918.86 per month: 1 g5.xlarge, always kept by compute-pool $734.38" in idle
    assert "1 m5.xlarge, always kept by aux-pool $140.16" in idle
    assert "Aurora, awake while machines run $43.80" in idle
    assert "paused" not in idle


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"min_instances": 2}, "$1,513.08 per month: 2 g5.xlarge, always kept by gpus $1,468.76"),
        ({"warm_instances": 1}, "1 g5.xlarge, always kept by gpus $734.38"),
        ({"warm_instances": 3, "max_instances": 1}, "1 g5.xlarge, always kept by gpus $734.38"),
        ({"min_instances": 2, "max_hourly_cost": 2}, "1 g5.xlarge, always kept by gpus $734.38"),
    ],
    ids=["min_instances", "warm_instances", "max_instances", "max_hourly_cost"],
)
def test_the_idle_cost_includes_machines_from_a_configuration(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    tmp_path: Path,
    sizes: dict[str, Any],
    text: str,
) -> None:
    pool = {
        "pool_name": "gpus",
        "offers": [{"type": "aws", "region": "us-west-2", "instance_type": "g5.xlarge"}],
        **sizes,
    }
    config = tmp_path / "master.yaml"
    config.write_text(yaml.safe_dump({"resource_pools": [pool]}))
    result = det("deploy", "aws", "up", "--dry-run", "--config", config, *account.where)
    assert result.code == 0, result.err
    assert text in result.out


def test_the_idle_cost_on_google_cloud_includes_machines(
    project: Project, terraform: FakeTerraform
) -> None:
    result = project.up("--dry-run", "--min-dynamic-agents", "1")
    assert result.code == 0, result.err
    assert "1 n1-standard-8, always kept by compute-pool $5" in result.out
