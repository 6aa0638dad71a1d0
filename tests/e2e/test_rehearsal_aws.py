"""`det deploy aws rehearse` in a box: the real Terraform, functions as Lambda runs them, machines that boot."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import yaml
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.aws_box import ACCOUNT, REGION
from tests.support.cloudbox import box as clouds
from tests.support.cloudbox.pools import AGENT
from tests.support.cluster import Answer
from tests.support.deployed_aws import CLUSTER, Deployment, deployed_aws

pytestmark = [
    pytest.mark.heavy("waits for minutes where the AWS provider of Terraform does"),
    pytest.mark.usefixtures("machines_may_boot"),
]
LIMIT_S = 4800  # six runs of Terraform
STEPS = "up,idle,spot,train,interruption,upgrade,notebook,down"
BUCKET = f"det-{CLUSTER}-{REGION}-{ACCOUNT}"


@pytest.fixture(scope="module")
def deployed(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: Any
) -> Iterator[Deployment]:
    with deployed_aws(tmp_path_factory.mktemp("rehearsal"), postgres_server) as deployment:
        yield deployment


def cluster_config(deployment: Deployment) -> str:
    """Return a configuration with spot machines that reach cluster and bucket from their own network."""
    provider = {
        "type": "aws", "region": REGION, "instance_type": "g4dn.xlarge", "spot": True,
        "master_url": deployment.clouds.master_url, "agent_config_file_contents": AGENT,
    }  # fmt: skip
    storage = {
        "type": "s3", "bucket": BUCKET, "endpoint_url": deployment.clouds.aws_url_of_machines,
        "access_key": "testing", "secret_key": "testing",
    }  # fmt: skip
    pools = [{"pool_name": "gpus", "provider": provider}]
    return yaml.safe_dump({"resource_pools": pools, "checkpoint_storage": storage})


def is_ticking(deployment: Deployment) -> bool:
    """Return whether EventBridge Scheduler would call the functions now."""
    schedules = deployment.aws("scheduler").list_schedules()["Schedules"]
    return any(s["Name"] == f"det-{CLUSTER}-tick" and s["State"] == "ENABLED" for s in schedules)


def rehearse(deployment: Deployment, *more: str) -> Answer:
    """Run the command, and play the schedules meanwhile."""
    options = ("--cluster-id", CLUSTER, "--yes", "--report", "report.md", "--steps", STEPS, *more)
    with ThreadPoolExecutor(1) as terminal:
        process = terminal.submit(deployment.deploy, "rehearse", *options, timeout_s=LIMIT_S)

        def has_ended() -> bool:
            # Functions fail before the database is migrated, and do not exist after the removal.
            with suppress(ClientError, BotoCoreError):
                if is_ticking(deployment):
                    deployment.turn()
            return process.done()

        clouds.until(has_ended, "the end of the rehearsal", LIMIT_S)
        return process.result()


def test_rehearsal_tests_a_new_cluster_and_removes_it(deployed: Deployment) -> None:
    (deployed.folder / "cluster.yaml").write_text(cluster_config(deployed))
    output = rehearse(
        deployed, "--config", "cluster.yaml", "--var", "bucket_lifecycle=false", "--idle-minutes", "0",
        "--delete-data",
    )  # fmt: skip
    report = json.loads((deployed.folder / "report.json").read_text())
    states = {step["step"]: step["state"] for step in report["steps"]}
    assert states == {
        "up": "passed", "idle": "passed", "spot": "passed", "train": "passed",
        "interruption": "passed", "upgrade": "passed", "notebook": "skipped", "down": "passed",
    }, output  # fmt: skip
    details = {step["step"]: step["detail"] for step in report["steps"]}
    assert "joined after" in details["spot"]
    assert f"in the bucket {BUCKET}" in details["train"]
    assert "without a notice" in details["interruption"]
    assert report["cost_usd"] > 0
    assert (report["passed"], report["leftovers"]) == (True, [])
    assert [m for m in deployed.machines() if m["State"]["Name"] != "terminated"] == []
    assert deployed.aws("lambda").list_functions()["Functions"] == []
    assert deployed.deploy("list").out == ""
