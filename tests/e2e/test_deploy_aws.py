"""`det deploy aws` against moto with the real Terraform, and the deployed functions run as Lambda runs them."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from det_controlplane.adapters.aes_cipher import AesCipher
from det_controlplane.db.engine.database import Database
from sqlalchemy import text

from tests.support.aws_box import REGION
from tests.support.cloudbox import box as clouds
from tests.support.cloudbox.pools import AGENT
from tests.support.deployed_aws import CLUSTER, FUNCTIONS, ROLES, Deployed, deployed_aws
from tests.support.operator_policy import OF_POWER_USERS, policy_of_operators
from tests.support.stock import stock_client

pytestmark = [
    pytest.mark.heavy("waits for minutes where the AWS provider of Terraform does"),
    pytest.mark.usefixtures("machines_may_boot"),
]

# Differences of moto: it prefixes groups in rules with the account, and describes the scaling of an Aurora cluster also
# in the first version's form.
CHANGED_BY_MOTO = {
    "module.machines.aws_vpc_security_group_ingress_rule.each_other",
    "module.database.aws_vpc_security_group_ingress_rule.functions",
    "module.database.aws_rds_cluster.this[0]",
}
OPTIONS = (
    "--cluster-id", CLUSTER, "--yes", "--config", "cluster.yaml", "--var", "bucket_lifecycle=false",
)  # fmt: skip
CONFIG = """
name: in-the-box
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
resources: {slots_per_trial: 1, resource_pool: gpus}
max_restarts: 0
checkpoint_storage: {type: s3, bucket: BUCKET, endpoint_url: "ENDPOINT", access_key: testing, secret_key: testing}
"""
# Training waits until the test has checked the running cluster.
CODE = """
import os, pathlib, time
import determined as det

with det.core.init() as core:
    print("begun on", os.environ["DET_AGENT_ID"], flush=True)
    while not pathlib.Path("GATE").exists():
        time.sleep(0.2)
    core.train.report_validation_metrics(1, {"loss": 0.5})
    with core.checkpoint.store_path({"steps_completed": 1}) as (path, _):
        (path / "weights").write_text("learnt")
"""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, postgres_server: Any) -> Iterator[Deployed]:
    with deployed_aws(tmp_path_factory.mktemp("deploy"), postgres_server) as deployment:
        yield deployment


def test_cluster_is_created_used_restored_and_removed_completely(
    deployed: Deployed,
) -> None:
    (deployed.folder / "cluster.yaml").write_text(cluster_config(deployed.clouds.master_url))
    output = deployed.deploy("up", *OPTIONS, "--add-tag", "team=vision").out
    password = re.search(r"until you change it: (\S+)", output)
    assert password, output
    assert f"export DET_MASTER={deployed.box.front_url}" in output
    check_functions_and_schedules(deployed)
    again = deployed.deploy("up", "--cluster-id", CLUSTER, "--dry-run").err
    changed = set(re.findall(r"(\S+): Plan to", again))
    assert "Plan: 0 to add, " in again
    assert changed <= CHANGED_BY_MOTO, "a repeated `up` must not change unchanged resources"

    master = {"DET_MASTER": deployed.box.front_url, "DET_USER": "admin", "DET_PASS": password[1]}
    create_experiment(deployed, master)
    check_machine(deployed)
    until_trial_runs(deployed, master)

    status = json.loads(deployed.deploy("status", "--cluster-id", CLUSTER, "--json").out)
    assert (status["answers"], status["machines"]) == (True, 1)
    assert deployed.deploy("list").out.split() == [CLUSTER]
    refused = deployed.deploy(
        "down", "--cluster-id", CLUSTER, "--yes", "--drain-timeout", "0", code=1
    )
    assert "1 machines of the cluster are running" in refused.err
    (deployed.folder / "gate").touch()
    train_by_the_stock_client(deployed, password[1])
    wait_for_result_and_idle_cluster(deployed, master)
    check_rights(deployed)
    restore_cluster(deployed, master)

    deployed.deploy("down", "--cluster-id", CLUSTER, "--yes", "--delete-data")
    check_removal(deployed)
    check_rights_of_operator(deployed)


def buckets(deployed: Deployed) -> list[str]:
    return [bucket["Name"] for bucket in deployed.aws("s3").list_buckets()["Buckets"]]


def cluster_config(master_url: str) -> str:
    """Return a configuration with machines without GPUs in their own network."""
    provider = {
        "type": "aws", "region": REGION, "instance_type": "g4dn.xlarge", "master_url": master_url,
        "agent_config_file_contents": AGENT, "max_idle_agent_period": "3s",
    }  # fmt: skip
    return yaml.safe_dump({"resource_pools": [{"pool_name": "gpus", "provider": provider}]})


def until_trial_runs(deployed: Deployed, master: Mapping[str, str]) -> None:
    """Wait until the machine has installed the agent from the function URL, joined by proof, and begun to train."""

    def begun() -> bool:
        deployed.turn()
        log = deployed.det("trial", "logs", "1", environ=master).out
        assert "was terminated" not in log, log
        return "begun on ip-" in log

    try:
        clouds.until(begun, "the start of the training", 300)
    except AssertionError as e:
        raise AssertionError(f"{e}{deployed.clouds.why()}{deployed.box.failed}") from None
    (machine,) = deployed.clouds.on()
    console = deployed.clouds.machine(machine.cloud_id).printed()
    assert "determined-boot: installing the agent" in console


def train_by_the_stock_client(deployed: Deployed, password: str) -> None:
    """Let Determined's own client create an experiment, follow it to its end, and read its log."""
    with (
        ThreadPoolExecutor(1) as user,
        stock_client(deployed.box.front_url, deployed.folder) as stock,
    ):

        def does(*args: object, typed: str = "") -> str:
            """Run one command, while time passes for the cluster."""
            begun = user.submit(stock.det, *args, typed=typed)

            def done() -> bool:
                deployed.turn()
                return begun.done()

            clouds.until(done, f"det {args}", 300)
            return begun.result()

        does("user", "login", "admin", typed=f"{password}\n")
        output = does("experiment", "create", "config.yaml", "context", "--follow-first-trial")
        assert "Created experiment 2" in output, output
        # The client takes the end of a function's answer for the end of the log. On a busy machine the rented machine
        # starts later.
        assert "Scheduling Trial 2 " in output, "it waits for its first trial, and follows its log"
        does("experiment", "wait", "2")
        log = does("trial", "logs", "2")
        assert "assigned to an agent: ip-" in log, log
        assert "begun on ip-" in log, log
        shown = does("experiment", "describe", "2")
        assert "COMPLETED" in shown, shown
        assert re.search(r"begun on ip-.*", does("experiment", "logs", "2"))


def wait_for_result_and_idle_cluster(deployed: Deployed, master: Mapping[str, str]) -> None:
    """Wait until the experiment has its result and its idle machine is terminated."""

    def over() -> bool:
        deployed.turn()
        return not deployed.clouds.on()

    clouds.until(over, f"the end of the machine {deployed.clouds.why()}", 300)
    check_results(deployed, master)


def check_results(deployed: Deployed, master: Mapping[str, str]) -> None:
    document = json.loads(deployed.det("experiment", "describe", "1", "--json", environ=master).out)
    assert document[0]["experiment"]["state"] == "STATE_COMPLETED"
    assert document[0]["experiment"]["bestTrialSearcherMetric"] == 0.5
    (bucket,) = [b for b in buckets(deployed) if b.startswith(f"det-{CLUSTER}-")]
    Contents = deployed.aws("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert [o for o in Contents if o["Key"].endswith("/weights")], "the checkpoint is in the bucket"


def check_functions_and_schedules(deployed: Deployed) -> None:
    """Check the environment of the functions, and the schedules that call them."""
    description = deployed.box.described[f"det-{CLUSTER}-migrate"]
    database = urlsplit(description["DET_DB_URL"])
    assert (database.username, database.port, database.path) == ("determined", 5432, "/determined")
    assert len(database.password or "") == 40
    schedules = deployed.aws("scheduler").list_schedules()["Schedules"]
    names = {schedule["Name"] for schedule in schedules}
    minutely = {f"det-{CLUSTER}-tick", f"det-{CLUSTER}-provision"}
    assert names == minutely | {f"det-{CLUSTER}-sign-of-life-{f}" for f in FUNCTIONS if f != "keys"}
    for schedule in schedules:
        called = schedule["Name"].replace("sign-of-life-", "")
        version = "" if called.endswith("-migrate") else ":live"
        assert schedule["Target"]["Arn"].endswith(f":function:{called}{version}")
    assert deployed.box.loops == dict.fromkeys((*minutely, f"det-{CLUSTER}-keys"), "Allow")


def create_experiment(deployed: Deployed, master: Mapping[str, str]) -> None:
    context = deployed.folder / "context"
    context.mkdir()
    (context / "train.py").write_text(CODE.replace("GATE", str(deployed.folder / "gate")))
    (bucket,) = [b for b in buckets(deployed) if b.startswith(f"det-{CLUSTER}-")]
    endpoint = deployed.clouds.aws_url_of_machines
    (deployed.folder / "config.yaml").write_text(
        CONFIG.replace("BUCKET", bucket).replace("ENDPOINT", endpoint)
    )
    output = deployed.det("experiment", "create", "config.yaml", "context", environ=master).out
    assert "Created experiment 1" in output


def check_machine(deployed: Deployed) -> None:
    """Wait for the machine of the experiment: the schedule's part is played where functions do not start each other."""
    limit = time.monotonic() + 60
    while not deployed.machines():
        assert time.monotonic() < limit, f"no machine was rented: {deployed.box.failed}"
        deployed.turn()
    deployed.box.settle()
    assert deployed.box.failed == []
    (machine,) = deployed.machines()
    assert machine["InstanceType"] == "g4dn.xlarge"
    (template,) = deployed.aws("ec2").describe_launch_templates()["LaunchTemplates"]
    (version,) = deployed.aws("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"]
    )["LaunchTemplateVersions"]
    profile = version["LaunchTemplateData"]["IamInstanceProfile"]["Arn"]
    assert profile.endswith(f"instance-profile/det-{CLUSTER}-machine")


def check_rights(deployed: Deployed) -> None:
    """Hold every call of the functions against the policy of the role that made it."""
    recorder = deployed.box.recorder
    policies = {role: deployed.policy(role.removeprefix(f"det-{CLUSTER}-")) for role in ROLES}
    denied = [call for call in recorder.calls if not policies[call.caller].allows(call)]
    assert denied == []
    made = {(call.caller, call.action) for call in recorder.calls}
    assert (f"det-{CLUSTER}-provision", "ec2:RunInstances") in made or (
        f"det-{CLUSTER}-provision", "ec2:CreateFleet") in made  # fmt: skip
    assert (f"det-{CLUSTER}-provision", "iam:PassRole") in made
    assert (f"det-{CLUSTER}-api", "lambda:InvokeFunction") in made
    for function in ("api", "tick", "migrate"):
        of_machines = {a for a in deployed.policy(function).actions() if a.startswith("ec2:")}
        assert of_machines <= {
            "ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
            "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
            "ec2:DetachNetworkInterface",
        }, f"{function} may do more than join the network"  # fmt: skip


def check_rights_of_operator(deployed: Deployed) -> None:
    """Compare the operator's IAM calls with the policy of the guide."""
    called = deployed.box.recorder.calls_of_operator
    policy = policy_of_operators()
    denied = {(c.action, c.resource) for c in called if not policy.allows(c)}
    assert {action for action, _ in denied} <= OF_POWER_USERS, denied
    made = {c.action for c in called}
    assert {"iam:CreateRole", "iam:PassRole", "iam:DeleteRole", "iam:CreateInstanceProfile"} <= made


def restore_cluster(deployed: Deployed, master: Mapping[str, str]) -> None:
    """Remove the cluster, and restore it with its users, experiments, checkpoints and secrets."""
    ada = {**master, "DET_USER": "ada", "DET_PASS": "Password-of-ada-1"}
    deployed.det("user", "create", "ada", "--password", ada["DET_PASS"], environ=master)
    before = deployed.box.described[f"det-{CLUSTER}-api"]["DET_SECRETS_KEY"]
    output = deployed.deploy("down", "--cluster-id", CLUSTER, "--yes").out
    snapshot = re.search(r"det deploy aws up .*--db-snapshot (\S+)", output)
    assert snapshot, output
    assert deployed.aws("lambda").list_functions()["Functions"] == []
    deployed.box.forget_functions()

    output = deployed.deploy("up", *OPTIONS, "--db-snapshot", snapshot[1]).out
    assert "until you change it" not in output, "the passwords of users are unchanged"
    assert deployed.box.described[f"det-{CLUSTER}-api"]["DET_SECRETS_KEY"] == before
    assert "ada" in deployed.det("user", "whoami", environ=ada).out
    check_results(deployed, master)
    check_secrets(deployed)


def check_secrets(deployed: Deployed) -> None:
    """Decrypt secrets of the restored database with the key of the new function."""
    key = deployed.box.described[f"det-{CLUSTER}-api"]["DET_SECRETS_KEY"]
    database = Database(deployed.box.database_url)
    ((sealed,),) = database.read(text("select sealed from experiments where id = 1"))
    database.dispose()
    assert '"testing"' in AesCipher([key]).open(sealed).decode()


def check_removal(deployed: Deployed) -> None:
    assert [m for m in deployed.machines() if m["State"]["Name"] != "terminated"] == []
    tagged = deployed.aws("resourcegroupstaggingapi").get_resources(
        TagFilters=[{"Key": "determined-cluster", "Values": [CLUSTER]}]
    )["ResourceTagMappingList"]
    # AWS deletes automatic snapshots with their database, and moto keeps them. The snapshot of the first removal stays
    # in both.
    gone = re.compile(r":instance/|:cluster-snapshot:")
    assert [r["ResourceARN"] for r in tagged if not gone.search(r["ResourceARN"])] == []
    assert deployed.aws("ec2").describe_launch_templates()["LaunchTemplates"] == []
    assert deployed.aws("lambda").list_functions()["Functions"] == []
    roles = [role["RoleName"] for role in deployed.aws("iam").list_roles()["Roles"]]
    assert [name for name in roles if name.startswith(f"det-{CLUSTER}")] == []
    assert [name for name in buckets(deployed) if not name.startswith("determined-state-")] == []
    assert deployed.deploy("list").out == ""
