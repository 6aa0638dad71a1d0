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
from tests.support.deployed_aws import CLUSTER, FUNCTIONS, ROLES, Deployment, deployed_aws
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
def deployed(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: Any
) -> Iterator[Deployment]:
    with deployed_aws(tmp_path_factory.mktemp("deploy"), postgres_server) as deployment:
        yield deployment


def test_cluster_is_created_used_restored_and_removed_completely(
    deployed: Deployment,
) -> None:
    (deployed.folder / "cluster.yaml").write_text(cluster_config(deployed.clouds.master_url))
    output = deployed.deploy("up", *OPTIONS, "--add-tag", "team=vision").out
    password = re.search(r"until you change it: (\S+)", output)
    assert password, output
    assert f"export DET_MASTER={deployed.box.front_url}" in output
    check_functions_and_schedules(deployed)
    second_output = deployed.deploy("up", "--cluster-id", CLUSTER, "--dry-run").err
    changes = set(re.findall(r"(\S+): Plan to", second_output))
    assert "Plan: 0 to add, " in second_output
    assert changes <= CHANGED_BY_MOTO, "a repeated `up` must not change unchanged resources"

    master = {"DET_MASTER": deployed.box.front_url, "DET_USER": "admin", "DET_PASS": password[1]}
    create_experiment(deployed, master)
    check_machine(deployed)
    until_trial_runs(deployed, master)

    status = json.loads(deployed.deploy("status", "--cluster-id", CLUSTER, "--json").out)
    assert (status["answers"], status["machines"]) == (True, 1)
    assert deployed.deploy("list").out.split() == [CLUSTER]
    result = deployed.deploy(
        "down", "--cluster-id", CLUSTER, "--yes", "--drain-timeout", "0", code=1
    )
    assert "1 machines of the cluster are running" in result.err
    (deployed.folder / "gate").touch()
    train_by_the_stock_client(deployed, password[1])
    wait_for_result_and_idle_cluster(deployed, master)
    check_rights(deployed)
    restore_cluster(deployed, master)

    deployed.deploy("down", "--cluster-id", CLUSTER, "--yes", "--delete-data")
    check_removal(deployed)
    check_rights_of_operator(deployed)


def buckets(deployment: Deployment) -> list[str]:
    return [bucket["Name"] for bucket in deployment.aws("s3").list_buckets()["Buckets"]]


def cluster_config(master_url: str) -> str:
    """Return a configuration with machines without GPUs in their own network."""
    provider = {
        "type": "aws", "region": REGION, "instance_type": "g4dn.xlarge", "master_url": master_url,
        "agent_config_file_contents": AGENT, "max_idle_agent_period": "3s",
    }  # fmt: skip
    return yaml.safe_dump({"resource_pools": [{"pool_name": "gpus", "provider": provider}]})


def until_trial_runs(deployment: Deployment, master: Mapping[str, str]) -> None:
    """Wait until the machine has installed the agent from the function URL, joined by proof, and begun to train."""

    def begun() -> bool:
        deployment.turn()
        log = deployment.det("trial", "logs", "1", environ=master).out
        assert "was terminated" not in log, log
        return "begun on ip-" in log

    try:
        clouds.until(begun, "the start of the training", 300)
    except AssertionError as e:
        raise AssertionError(f"{e}{deployment.clouds.why()}{deployment.box.failed}") from None
    (machine,) = deployment.clouds.on()
    console = deployment.clouds.machine(machine.cloud_id).printed()
    assert "determined-boot: installing the agent" in console


def train_by_the_stock_client(deployment: Deployment, password: str) -> None:
    """Let Determined's own client create an experiment, follow it to its end, and read its log."""
    with (
        ThreadPoolExecutor(1) as user,
        stock_client(deployment.box.front_url, deployment.folder) as stock,
    ):

        def does(*args: object, stdin: str = "") -> str:
            """Run one command, while time passes for the cluster."""
            process = user.submit(stock.det, *args, stdin=stdin)

            def done() -> bool:
                deployment.turn()
                return process.done()

            clouds.until(done, f"det {args}", 300)
            return process.result()

        does("user", "login", "admin", stdin=f"{password}\n")
        output = does("experiment", "create", "config.yaml", "context", "--follow-first-trial")
        assert "Created experiment 2" in output, output
        # The client takes the end of a function's answer for the end of the log. On a busy machine the rented machine
        # starts later.
        assert "Scheduling Trial 2 " in output, "it waits for its first trial, and follows its log"
        does("experiment", "wait", "2")
        log = does("trial", "logs", "2")
        assert "assigned to an agent: ip-" in log, log
        assert "begun on ip-" in log, log
        shown_output = does("experiment", "describe", "2")
        assert "COMPLETED" in shown_output, shown_output
        assert re.search(r"begun on ip-.*", does("experiment", "logs", "2"))


def wait_for_result_and_idle_cluster(deployment: Deployment, master: Mapping[str, str]) -> None:
    """Wait until the experiment has its result and its idle machine is terminated."""

    def over() -> bool:
        deployment.turn()
        return not deployment.clouds.on()

    clouds.until(over, f"the end of the machine {deployment.clouds.why()}", 300)
    check_results(deployment, master)


def check_results(deployment: Deployment, master: Mapping[str, str]) -> None:
    document = json.loads(
        deployment.det("experiment", "describe", "1", "--json", environ=master).out
    )
    assert document[0]["experiment"]["state"] == "STATE_COMPLETED"
    assert document[0]["experiment"]["bestTrialSearcherMetric"] == 0.5
    (bucket,) = [b for b in buckets(deployment) if b.startswith(f"det-{CLUSTER}-")]
    Contents = deployment.aws("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert [o for o in Contents if o["Key"].endswith("/weights")], "the checkpoint is in the bucket"


def check_functions_and_schedules(deployment: Deployment) -> None:
    """Check the environment of the functions, and the schedules that call them."""
    description = deployment.box.described[f"det-{CLUSTER}-migrate"]
    database = urlsplit(description["DET_DB_URL"])
    assert (database.username, database.port, database.path) == ("determined", 5432, "/determined")
    assert len(database.password or "") == 40
    schedules = deployment.aws("scheduler").list_schedules()["Schedules"]
    names = {schedule["Name"] for schedule in schedules}
    minutely = {f"det-{CLUSTER}-tick", f"det-{CLUSTER}-provision"}
    assert names == minutely | {f"det-{CLUSTER}-sign-of-life-{f}" for f in FUNCTIONS if f != "keys"}
    for schedule in schedules:
        name = schedule["Name"].replace("sign-of-life-", "")
        version = "" if name.endswith("-migrate") else ":live"
        assert schedule["Target"]["Arn"].endswith(f":function:{name}{version}")
    assert deployment.box.loops == dict.fromkeys((*minutely, f"det-{CLUSTER}-keys"), "Allow")


def create_experiment(deployment: Deployment, master: Mapping[str, str]) -> None:
    context = deployment.folder / "context"
    context.mkdir()
    (context / "train.py").write_text(CODE.replace("GATE", str(deployment.folder / "gate")))
    (bucket,) = [b for b in buckets(deployment) if b.startswith(f"det-{CLUSTER}-")]
    endpoint = deployment.clouds.aws_url_of_machines
    (deployment.folder / "config.yaml").write_text(
        CONFIG.replace("BUCKET", bucket).replace("ENDPOINT", endpoint)
    )
    output = deployment.det("experiment", "create", "config.yaml", "context", environ=master).out
    assert "Created experiment 1" in output


def check_machine(deployment: Deployment) -> None:
    """Wait for the machine of the experiment: the schedule's part is played where functions do not start each other."""
    limit = time.monotonic() + 60
    while not deployment.machines():
        assert time.monotonic() < limit, f"no machine was rented: {deployment.box.failed}"
        deployment.turn()
    deployment.box.settle()
    assert deployment.box.failed == []
    (machine,) = deployment.machines()
    assert machine["InstanceType"] == "g4dn.xlarge"
    (template,) = deployment.aws("ec2").describe_launch_templates()["LaunchTemplates"]
    (version,) = deployment.aws("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"]
    )["LaunchTemplateVersions"]
    profile = version["LaunchTemplateData"]["IamInstanceProfile"]["Arn"]
    assert profile.endswith(f"instance-profile/det-{CLUSTER}-machine")


def check_rights(deployment: Deployment) -> None:
    """Hold every call of the functions against the policy of the role that made it."""
    recorder = deployment.box.recorder
    policies = {role: deployment.policy(role.removeprefix(f"det-{CLUSTER}-")) for role in ROLES}
    denied_calls = [call for call in recorder.calls if not policies[call.caller].allows(call)]
    assert denied_calls == []
    actions_called = {(call.caller, call.action) for call in recorder.calls}
    assert (f"det-{CLUSTER}-provision", "ec2:RunInstances") in actions_called or (
        f"det-{CLUSTER}-provision", "ec2:CreateFleet") in actions_called  # fmt: skip
    assert (f"det-{CLUSTER}-provision", "iam:PassRole") in actions_called
    assert (f"det-{CLUSTER}-api", "lambda:InvokeFunction") in actions_called
    for function in ("api", "tick", "migrate"):
        of_machines = {a for a in deployment.policy(function).actions() if a.startswith("ec2:")}
        assert of_machines <= {
            "ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
            "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
            "ec2:DetachNetworkInterface",
        }, f"{function} may do more than join the network"  # fmt: skip


def check_rights_of_operator(deployment: Deployment) -> None:
    """Compare the operator's IAM calls with the policy of the guide."""
    calls = deployment.box.recorder.calls_of_operator
    policy = policy_of_operators()
    denied_actions = {(c.action, c.resource) for c in calls if not policy.allows(c)}
    assert {action for action, _ in denied_actions} <= OF_POWER_USERS, denied_actions
    actions = {c.action for c in calls}
    assert {
        "iam:CreateRole",
        "iam:PassRole",
        "iam:DeleteRole",
        "iam:CreateInstanceProfile",
    } <= actions


def restore_cluster(deployment: Deployment, master: Mapping[str, str]) -> None:
    """Remove the cluster, and restore it with its users, experiments, checkpoints and secrets."""
    ada = {**master, "DET_USER": "ada", "DET_PASS": "Password-of-ada-1"}
    deployment.det("user", "create", "ada", "--password", ada["DET_PASS"], environ=master)
    before = deployment.box.described[f"det-{CLUSTER}-api"]["DET_SECRETS_KEY"]
    output = deployment.deploy("down", "--cluster-id", CLUSTER, "--yes").out
    snapshot = re.search(r"det deploy aws up .*--db-snapshot (\S+)", output)
    assert snapshot, output
    assert deployment.aws("lambda").list_functions()["Functions"] == []
    deployment.box.forget_functions()

    output = deployment.deploy("up", *OPTIONS, "--db-snapshot", snapshot[1]).out
    assert "until you change it" not in output, "the passwords of users are unchanged"
    assert deployment.box.described[f"det-{CLUSTER}-api"]["DET_SECRETS_KEY"] == before
    assert "ada" in deployment.det("user", "whoami", environ=ada).out
    check_results(deployment, master)
    check_secrets(deployment)


def check_secrets(deployment: Deployment) -> None:
    """Decrypt secrets of the restored database with the key of the new function."""
    key = deployment.box.described[f"det-{CLUSTER}-api"]["DET_SECRETS_KEY"]
    database = Database(deployment.box.database_url)
    ((sealed,),) = database.read(text("select sealed from experiments where id = 1"))
    database.dispose()
    assert '"testing"' in AesCipher([key]).open(sealed).decode()


def check_removal(deployment: Deployment) -> None:
    assert [m for m in deployment.machines() if m["State"]["Name"] != "terminated"] == []
    tagged = deployment.aws("resourcegroupstaggingapi").get_resources(
        TagFilters=[{"Key": "determined-cluster", "Values": [CLUSTER]}]
    )["ResourceTagMappingList"]
    # AWS deletes automatic snapshots with their database, and moto keeps them. The snapshot of the first removal stays
    # in both.
    removed_kinds = re.compile(r":instance/|:cluster-snapshot:")
    assert [r["ResourceARN"] for r in tagged if not removed_kinds.search(r["ResourceARN"])] == []
    assert deployment.aws("ec2").describe_launch_templates()["LaunchTemplates"] == []
    assert deployment.aws("lambda").list_functions()["Functions"] == []
    roles = [role["RoleName"] for role in deployment.aws("iam").list_roles()["Roles"]]
    assert [name for name in roles if name.startswith(f"det-{CLUSTER}")] == []
    assert [name for name in buckets(deployment) if not name.startswith("determined-state-")] == []
    assert deployment.deploy("list").out == ""
