"""Determined's options of `det deploy` have an effect in a cloud, or print their replacement."""

import argparse
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from det_cli.actions.deploy_options import variables
from det_cli.commands.deploy import MEMBERS
from det_cli.declare import Command, Group, ReplacedArg
from det_cli.deployment import stack_variables
from det_cli.deployment.terraform import stacks
from det_cli.errors import UsageError
from det_cli.find import find
from det_cli.parse import parse
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.provider_defaults import with_defaults
from det_controlplane.entry.aws import packaging

from tests.cli.conftest import Det
from tests.support.aws_account import MADE, OWN_STATE_BUCKET, Account
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform, error_event
from tests.support.google_project import MADE as MADE_BY_GOOGLE
from tests.support.google_project import STATES, Project, outputs, state

AWS_GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/aws.md"


def replaced() -> Iterator[tuple[list[str], ReplacedArg]]:
    """Yield each replaced option with the words of a command that accepts it."""
    for group in MEMBERS["deploy"].members:
        assert isinstance(group, Group)
        for command in group.members:
            assert isinstance(command, Command)
            needs_id = any("--cluster-id" in a.names for a in command.args if hasattr(a, "names"))
            words = ["deploy", group.name, command.name, *(["--cluster-id=c"] if needs_id else [])]
            yield from ((words, arg) for arg in command.args if isinstance(arg, ReplacedArg))


REPLACED = list(replaced())


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
@pytest.mark.parametrize("url", ["localhost:5000", "http://", "ftp://there"])
def test_rejects_an_endpoint_without_scheme_or_host(cloud: str, url: str, det: Det) -> None:
    result = det("deploy", cloud, "list", f"--endpoint-url={url}")
    assert result.code == 2
    assert f"must be an address like https://HOST:PORT, not '{url}'" in result.err


@pytest.mark.parametrize(
    ("words", "option"), REPLACED, ids=[" ".join([*w[1:3], o.names[0]]) for w, o in REPLACED]
)
def test_a_replaced_option_prints_its_replacement(
    words: list[str], option: ReplacedArg, capsys: pytest.CaptureFixture[str], det: Det
) -> None:
    value = [] if option.options.get("action") else ["VALUE"]
    if option.refused:
        result = det(*words, option.names[0], *value)
        assert result.code == 2
        assert f"{option.names[0]} {option.instead}" in result.err
        return
    parse(find([*words, option.names[0], *value]), {})
    assert capsys.readouterr().err == f"{option.names[0]} {option.instead}\n"


def test_the_variables_in_the_guide_are_valid() -> None:
    """A map in Terraform's syntax is only a string in YAML."""
    choices = re.findall(r"^\| `([^`]*\w=[^`]+)` \|", AWS_GUIDE.read_text(), re.MULTILINE)
    words = [word for choice in choices for word in shlex.split(choice)]
    values = variables(argparse.Namespace(var=words))
    assert values == {
        "architecture": "arm64", "snap_start": True, "memory_mb": {"tick": 512}, "endpoint": "api_gateway",
        "machine_external_ip": False, "alarm_topic_arn": "ARN",
    }  # fmt: skip


def test_accepts_a_harmless_value_of_a_refused_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parse(find(["deploy", "aws", "up", "--cluster-id=c", "--inbound-cidr", "0.0.0.0/0"]), {})
    assert capsys.readouterr().err == ""


def test_a_replaced_option_of_the_group_prints_its_replacement(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    result = det("deploy", "--no-wait-for-master", "aws", "list", *account.where[2:])
    assert result.code == 0
    assert "the command waits until the cluster answers" in result.err


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the list of configurations with which functions are built."""
    configs: list[dict[str, Any]] = []

    def build(out: Path, files: dict[str, bytes]) -> Path:
        configs.append(yaml.safe_load(files["cluster.yaml"]))
        (out / "deployment.zip").write_bytes(b"zip")
        return out / "deployment.zip"

    monkeypatch.setattr(packaging, "build", build)
    return configs


def test_options_for_aws_become_pools_scheduler_images_and_tags(
    det: Det, account: Account, terraform: FakeTerraform, built: list[dict[str, Any]]
) -> None:
    account.client("ec2").create_key_pair(KeyName="ada")
    subnet = account.client("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    result = det(
        "deploy", "aws", "up", "--dry-run", *account.where, "--keypair", "ada", "--add-tag", "team=vision",
        "--gpu-agent-instance-type", "g5.xlarge", "--spot", "--spot-max-price", "0.5", "--agent-subnet-id", subnet,
        "--preemption-enabled", "true", "--gpu-env-image", "localhost:1/ours:1", "--notebook-timeout", "600",
        "--db-instance-type", "db.t4g.small",
    )  # fmt: skip
    assert result.code == 0, result.err
    (config,) = built
    load_cluster(config)
    compute, aux = config["resource_pools"]
    common = {
        "type": "aws", "region": "us-west-2", "ssh_key_name": "ada", "network_interface": {"subnet_id": subnet},
        "custom_tags": [{"key": "team", "value": "vision"}],
    }  # fmt: skip
    assert compute["provider"].items() >= {**common, "spot": True, "spot_max_price": "0.5"}.items()
    assert aux["provider"].items() >= common.items()
    assert "spot_max_price" not in aux["provider"]
    assert config["resource_manager"]["scheduler"] == {"type": "priority", "preemption": True}
    assert config["task_container_defaults"] == {"image": {"cuda": "localhost:1/ours:1"}}
    assert config["notebook_timeout"] == 600
    (plan,) = terraform.calls("plan")
    assert plan["variables"]["tags"] == {"team": "vision"}
    assert plan["variables"]["database"] == "rds"
    assert plan["variables"]["database_instance_class"] == "db.t4g.small"


def test_reports_an_unknown_key_pair_before_any_change(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    result = det("deploy", "aws", "up", "--yes", *account.where, "--keypair", "ada")
    assert (result.code, "us-west-2 has no key pair ada" in result.err) == (1, True)
    assert terraform.calls("apply") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--add-tag", "team"), "--add-tag team has no value"),
        (
            ("--deployment-type", "efs"),
            "--deployment-type efs is not supported: machines do not mount",
        ),
        (
            ("--scheduler-type", "fair_share", "--preemption-enabled", "true"),
            "--preemption-enabled has no meaning for --scheduler-type fair_share",
        ),
        (("--spot-max-price", "cheap"), "--spot-max-price"),
    ],
)
def test_reports_an_invalid_value_by_option(
    det: Det, account: Account, terraform: FakeTerraform, options: tuple[str, ...], message: str
) -> None:
    result = det("deploy", "aws", "up", "--yes", *account.where, *options)
    assert (result.code, message in result.err) == (2, True), result.err
    assert terraform.calls("apply") == []


@pytest.mark.parametrize(
    ("variable", "cause", "remedy"),
    [
        ("reley=true", "--var reley: the stack has no such variable", "did you mean --var relay=…?"),
        ("qqq=1", "--var qqq: the stack has no such variable", "docs/reference/terraform.md lists all"),
        ("api_concurrency=many", "--var api_concurrency must be a number, not 'many'", ""),
        ("relay=1", "--var relay must be true or false, not 1", ""),
        ("zones=us-west-2a", "--var zones must be a list, as in '[one, two]', not 'us-west-2a'", ""),
        ("relay=", "--var relay has no value", "give --var relay=VALUE"),
        ("cidr=null", "--var cidr has no value", "give --var cidr=VALUE"),
        ("zones=[us-west-2a", "--var zones=[us-west-2a is not valid YAML", "put quotes around"),
    ],
)  # fmt: skip
def test_rejects_an_invalid_variable_before_any_change(
    det: Det, account: Account, terraform: FakeTerraform, variable: str, cause: str, remedy: str
) -> None:
    """Terraform ignores unknown names, so a misspelled variable would have no effect."""
    result = det("deploy", "aws", "up", "--yes", "--var", variable, *account.where)
    assert (result.code != 0, cause in result.err, remedy in result.err) == (True, True, True), (
        result.err
    )
    assert terraform.calls("apply") == []


def test_only_variables_with_a_null_default_accept_null(tmp_path: Path) -> None:
    body = 'variable "a" {\n  type        = string\n  default     = null\n}\n'
    (tmp_path / "variables.tf").write_text(body)
    stack_variables.check(tmp_path, {"a": None})
    (tmp_path / "variables.tf").write_text(body.replace("null", '""'))
    with pytest.raises(UsageError, match="--var a has no value"):
        stack_variables.check(tmp_path, {"a": None})


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_every_variable_of_a_stack_has_a_known_type(cloud: str) -> None:
    declared_variables = stack_variables.declared_in(stacks() / cloud)
    assert len(declared_variables) > 20
    assert {variable.type for variable in declared_variables.values()} - {"object"} == {
        "bool",
        "number",
        "string",
        "list",
        "map",
    }


def test_rejects_pool_options_with_a_configuration_that_has_pools(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    """Without the error, the options would have no effect."""
    config = tmp_path / "master.yaml"
    pool = {"pool_name": "gpus", "provider": {"type": "aws", "instance_type": "g5.xlarge"}}
    config.write_text(yaml.safe_dump({"resource_pools": [pool]}))
    result = det("deploy", "aws", "up", "--yes", *account.where, "--config", config, "--spot")
    assert result.code == 2
    assert "has its own pools: --spot cannot change them" in result.err


def test_a_removal_uses_the_stored_options(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    """Without them, an RDS database was treated as Aurora, kept its protection and could not be removed."""
    terraform.answers(apply={"out": error_event("failed", "it did"), "code": 1})
    options = ("--var", "database=rds", "--add-tag", "team=vision")
    assert det("deploy", "aws", "up", "--yes", *account.where, *options).code == 1
    account.client("s3").put_object(Bucket=OWN_STATE_BUCKET, Key="box/state", Body=b"{}")
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    result = det("deploy", "aws", "down", "--yes", *account.where)
    assert result.code == 0, result.err
    ending, _ = terraform.calls("apply", "destroy")[-2:]
    variables = ending["variables"]
    assert (variables["database"], variables["tags"], variables["keep_data"]) == (
        "rds",
        {"team": "vision"},
        True,
    )
    assert variables["removal"].isdigit()


def test_the_command_and_terraform_use_the_profile(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    keys = "aws_access_key_id = testing\naws_secret_access_key = testing\n"
    (tmp_path / "aws").write_text(f"[profile lab]\nregion = us-west-2\n{keys}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    at = ("--cluster-id", "box", "--endpoint-url", account.url)
    result = det("deploy", "aws", "up", "--dry-run", *at, "--profile", "lab")
    assert result.code == 0, result.err
    (plan,) = terraform.calls("plan")
    assert (plan["profile"], plan["variables"]["region"]) == ("lab", "us-west-2")
    result = det("deploy", "aws", "up", "--dry-run", *at, "--profile", "lob")
    assert (result.code, "has no profile lob" in result.err) == (2, True)


def test_aws_region_overrides_aws_default_region(
    det: Det, account: Account, terraform: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint for a missing region mentions AWS_REGION, so the command must read it."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    at = ("--cluster-id", "box", "--endpoint-url", account.url)
    result = det("deploy", "aws", "up", "--dry-run", *at)
    assert result.code == 0, result.err
    (plan,) = terraform.calls("plan")
    assert plan["variables"]["region"] == "us-west-2"


def test_options_for_google_become_disks_labels_and_processors(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE_BY_GOOGLE[0]))
    result = project.up(
        "--image", "img", "--disk-size", "300", "--disk-type", "pd-ssd", "--preemptible", "true",
        "--min-cpu-platform-agent", "Intel Skylake", "--add-label", "team=vision",
    )  # fmt: skip
    assert result.code == 0, result.err
    (apply,) = terraform.calls("apply")
    assert apply["variables"]["labels"] == {"team": "vision"}
    compute, aux = yaml.safe_load(apply["variables"]["cluster_config"])["resource_pools"]
    common = {"boot_disk_type": "pd-ssd", "labels": {"team": "vision"}}
    compute_settings = {
        "boot_disk_size": 300,
        "spot": True,
        "base_config": {"minCpuPlatform": "Intel Skylake"},
    }
    assert compute["provider"].items() >= {**common, **compute_settings}.items()
    assert aux["provider"].items() >= {**common, "boot_disk_size": 100}.items()
    bad = project.up("--image", "img", "--add-label", "Team=Vision")
    assert (bad.code, "is not a valid Google Cloud label" in bad.err) == (2, True)


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_the_configuration_template_is_valid(det: Det, cloud: str) -> None:
    result = det("deploy", cloud, "dump-master-config-template")
    assert result.code == 0, result.err
    defaults = {cloud: {"region": {"aws": "eu-west-1", "gcp": "europe-west4"}[cloud]}}
    pools = load_cluster(with_defaults(yaml.safe_load(result.out), defaults)).resource_pools
    assert [pool.pool_name for pool in pools] == ["compute-pool", "aux-pool"]


def applied(terraform: FakeTerraform) -> dict[str, Any]:
    """Return the configuration of the last apply for Google Cloud."""
    config: dict[str, Any] = yaml.safe_load(
        terraform.calls("apply")[-1]["variables"]["cluster_config"]
    )
    return config


@pytest.fixture
def google_up(project: Project, terraform: FakeTerraform, cluster: FakeCluster) -> Det:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE_BY_GOOGLE[0]))
    return lambda *options: project.up("--image", "img", "--no-preflight-checks", *options)


def keep(project: Project, *pairs: str) -> None:
    """Add `--var` pairs to the stored options, as an earlier version of the command did."""
    objects = project.google.buckets[STATES]
    (name,) = (name for name in objects if name.endswith("options.json"))
    objects[name] = json.dumps({**json.loads(objects[name]), "var": pairs}).encode()


def test_ignores_a_stored_variable_that_the_stack_no_longer_has(
    google_up: Det, project: Project, terraform: FakeTerraform
) -> None:
    """Otherwise each later `up` would fail, and --forget-options would also drop all other options."""
    assert google_up("--var", "log_retention_days=1").code == 0
    keep(project, "reley=true", "log_retention_days=1")
    result = google_up()
    assert result.code == 0, result.err
    assert (
        "Ignored --var reley=true of the previous run: the stack has no such variable" in result.err
    )
    assert "Reusing options of the previous run: --var log_retention_days=1 (" in result.err
    assert terraform.calls("apply")[-1]["variables"].items() >= {"log_retention_days": 1}.items()
    assert "reley" not in terraform.calls("apply")[-1]["variables"]
    assert "Ignored --var" not in google_up().err


def test_an_invalid_stored_value_can_be_replaced_or_forgotten(
    google_up: Det, project: Project, terraform: FakeTerraform
) -> None:
    assert google_up().code == 0
    keep(project, "log_retention_days=few")
    result = google_up()
    assert (result.code, "--var log_retention_days must be a number" in result.err) == (2, True)
    assert "give --var log_retention_days=VALUE, or --forget-options" in result.err
    assert google_up("--var", "log_retention_days=3").code == 0
    mistyped = google_up("--var", "reley=true")
    assert (mistyped.code, "or --forget-options" in mistyped.err) == (2, False), mistyped.err


def test_a_zero_replaces_a_stored_number(google_up: Det, terraform: FakeTerraform) -> None:
    """Zero counts as a given value, so that it can remove GPUs."""
    numbers = ("--min-dynamic-agents", "--gpu-num", "--max-aux-containers-per-agent")
    assert google_up(*(word for name in numbers for word in (name, "2"))).code == 0
    result = google_up(*(word for name in numbers for word in (name, "0")))
    assert (result.code, "Reusing options" in result.err) == (0, False), result.err
    compute, aux = applied(terraform)["resource_pools"]
    assert compute["provider"]["min_instances"] == 0
    assert compute["provider"]["instance_type"]["gpu_num"] == 0
    assert aux["max_aux_containers_per_agent"] == 0


def test_reuses_a_stored_zero(google_up: Det, terraform: FakeTerraform) -> None:
    assert google_up("--max-dynamic-agents", "0", "--gpu-num", "0").code == 0
    result = google_up()
    assert "Reusing options of the previous run: --max-dynamic-agents, --gpu-num (" in result.err
    provider = applied(terraform)["resource_pools"][0]["provider"]
    assert (provider["max_instances"], provider["instance_type"]["gpu_num"]) == (0, 0)


def test_a_notebook_timeout_of_zero_removes_the_stored_and_configured_timeout(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    built: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    config = tmp_path / "master.yaml"
    config.write_text("notebook_timeout: 300\n")
    terraform.answers(apply={"out": error_event("failed", "it did"), "code": 1})
    up = ("deploy", "aws", "up", "--yes", *account.where)
    det(*up, "--config", config, "--notebook-timeout", "600")
    det(*up, "--notebook-timeout", "0")
    assert [config.get("notebook_timeout") for config in built] == [600, None]


def test_rejects_pool_options_with_a_stored_configuration_that_has_pools(
    google_up: Det, terraform: FakeTerraform, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    machines = {"type": "gcp", "instance_type": {"machine_type": "n1-standard-8"}}
    pool = {"pool_name": "gpus", "provider": machines}
    manager = {"default_compute_resource_pool": "gpus", "default_aux_resource_pool": "gpus"}
    config.write_text(yaml.safe_dump({"resource_pools": [pool], "resource_manager": manager}))
    assert google_up("--config", config).code == 0
    result = google_up("--spot", "--max-dynamic-agents", "20")
    assert result.code == 2
    message = "the stored configuration has its own pools: --spot, --max-dynamic-agents cannot change them"
    assert message in result.err
    config.write_text("cluster_name: lab\n")
    assert google_up("--spot", "--config", config).code == 0
    assert applied(terraform)["resource_pools"][0]["provider"]["spot"] is True


@pytest.mark.parametrize(
    ("written", "scheduler"),
    [
        ({"preemption": True, "default_priority": 7}, {"default_priority": 7}),
        ({"scheduler": {"type": "fair_share", "preemption": True}}, {"type": "fair_share"}),
        (
            {"resource_manager": {"scheduler": {"type": "priority", "preemption": True}}},
            {"type": "priority"},
        ),
    ],
)
def test_an_option_can_disable_the_preemption_of_a_configuration(
    google_up: Det,
    terraform: FakeTerraform,
    tmp_path: Path,
    written: dict[str, Any],
    scheduler: dict[str, Any],
) -> None:
    config = tmp_path / "master.yaml"
    config.write_text(yaml.safe_dump(written))
    assert google_up("--config", config, "--preemption-enabled", "false").code == 0
    applied_config = applied(terraform)
    assert applied_config["resource_manager"]["scheduler"] == {**scheduler, "preemption": False}
    assert load_cluster(applied_config).scheduler.preemption is False


@pytest.mark.parametrize(
    ("first", "now"),
    [
        (("--preemption-enabled", "true"), ("--scheduler-type", "fair_share")),
        (("--spot",), ("--preemptible", "false")),
        (
            ("--gpu-type", "nvidia-tesla-t4", "--gpu-num", "2"),
            ("--compute-agent-instance-type", "a2-highgpu-1g"),
        ),
    ],
)
def test_an_option_supersedes_a_conflicting_stored_option(
    google_up: Det, terraform: FakeTerraform, first: tuple[str, ...], now: tuple[str, ...]
) -> None:
    assert google_up(*first).code == 0
    result = google_up(*now)
    assert (result.code, "Reusing options" in result.err) == (0, False), result.err
    after = applied(terraform)
    assert google_up("--forget-options", *now).code == 0
    assert after == applied(terraform)


def test_an_option_of_the_group_accepts_a_value_after_an_equals_sign(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    """Such a command once printed the help of the group and exited with 0."""
    result = det("deploy", "--image-repo-prefix=ours", "aws", "status", *account.where)
    assert (result.code, "commands:" in result.out) != (0, True)
    assert "--image-repo-prefix is not needed" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--x=1", "aws", "list"), "det deploy has no option '--x=1'"),
        (("aws", "--x", "list"), "det deploy aws has no option '--x'"),
        (("--no-preflight-checks=1", "aws", "list"), "--no-preflight-checks takes no value"),
        (("--image-repo-prefix",), "option --image-repo-prefix needs a value"),
    ],
)
def test_rejects_an_invalid_option_before_a_command(
    det: Det, home: Path, words: tuple[str, ...], message: str
) -> None:
    result = det("deploy", *words)
    assert (result.code, message in result.err) == (2, True), result.err
