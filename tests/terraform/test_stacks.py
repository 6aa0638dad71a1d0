"""Terraform's own checks of both stacks: format, validation and plan tests."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import terraform
from tests.support.terraform import (
    INFRA,
    Stack,
    aws_provider,
    aws_stack,
    google_provider,
    google_stack,
)


@pytest.fixture(scope="module")
def amazons() -> Iterator[Mapping[str, str]]:
    with aws_provider() as running:
        yield running


@pytest.fixture(scope="module")
def aws(amazons: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return aws_stack(tmp_path_factory.mktemp("aws"), amazons)


@pytest.fixture(scope="module")
def googles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with google_provider(tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture(scope="module")
def google(googles: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return google_stack(tmp_path_factory.mktemp("google"), googles)


def test_terraform_is_formatted() -> None:
    command = [terraform.terraform(), "fmt", "-check", "-diff", "-recursive", str(INFRA)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_locked_providers_are_locked_for_every_platform() -> None:
    """Terraform rejects a provider if the lock lacks the platform. `zh:` sums cover all released packages."""
    for lock in INFRA.rglob(".terraform.lock.hcl"):
        for provider in lock.read_text().split("\nprovider ")[1:]:
            assert len(re.findall(r'"zh:[0-9a-f]{64}"', provider)) >= 10, lock


# A Terraform test also validates the stack.
def test_aws_stack_passes_its_plan_tests(aws: Stack) -> None:
    assert "0 failed" in aws.must("test")


def test_function_roles_are_deleted_after_their_network_interfaces(aws: Stack) -> None:
    """Lambda removes the network interfaces of functions with their roles, minutes after the functions."""
    group, rights = (
        f"module.controlplane.aws_{name}"
        for name in ("security_group.functions", "iam_role_policy.function")
    )
    assert f'"{group}" -> "{rights}"' in aws.must("graph")


def test_google_stack_passes_its_plan_tests(google: Stack) -> None:
    assert "0 failed" in google.must("test")


def test_new_secret_version_is_created_before_the_old_one_is_deleted() -> None:
    text = (INFRA / "modules/gcp/secrets/main.tf").read_text()
    (version,) = re.findall(
        r'^resource "google_secret_manager_secret_version" .*?^\}', text, re.M | re.S
    )
    assert re.search(r"create_before_destroy += true", version)


def test_changes_of_a_vpc_origin_may_take_an_hour() -> None:
    """The provider's default is 15 minutes. Some creations have taken longer, and then block each later apply."""
    text = (INFRA / "modules/aws/relay/main.tf").read_text()
    (origin,) = re.findall(r'^resource "aws_cloudfront_vpc_origin" .*?^\}', text, re.M | re.S)
    (timeouts,) = re.findall(r"^  timeouts \{\n(.*?)^  \}", origin, re.M | re.S)
    limits = dict(re.findall(r'(\w+) = "(\w+)"', timeouts))
    assert limits == {"create": "60m", "update": "60m", "delete": "60m"}


def test_functions_on_aws_run_no_code_from_a_bucket() -> None:
    """Tasks may write to the cluster's bucket, so Lambda gets the code of functions with the request."""
    text = "".join(path.read_text() for path in sorted(INFRA.glob("modules/aws/**/*.tf")))
    functions = re.findall(r'^resource "aws_lambda_function" .*?^\}', text, re.M | re.S)
    assert len(functions) > 3
    assert [f for f in functions if not re.search(r"^  filename +=", f, re.M)] == []
    assert re.findall(r"s3_(?:bucket|key|object_version) +=", "".join(functions)) == []


EXAMPLES = sorted(path.parent.name for path in INFRA.glob("examples/*/main.tf"))


@pytest.mark.parametrize("name", [e for e in EXAMPLES if e.startswith("gcp-")])
def test_google_examples_are_valid(name: str, tmp_path: Path, googles: Mapping[str, str]) -> None:
    google_stack(tmp_path, googles, f"examples/{name}").must("validate")


@pytest.mark.parametrize("name", [e for e in EXAMPLES if e.startswith("aws-")])
def test_aws_examples_are_valid(name: str, tmp_path: Path, amazons: Mapping[str, str]) -> None:
    aws_stack(tmp_path, amazons, f"examples/{name}").must("validate")


def test_every_example_is_validated() -> None:
    assert EXAMPLES
    assert [e for e in EXAMPLES if not e.startswith(("aws-", "gcp-"))] == []


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("disk_autoresize ", "disk_autoresizing ", 'argument named "disk_autoresizing"'),
        ("  region              = var.region", "  region = var.regoin", "regoin"),
        ('  database_version    = "POSTGRES_16"', "", '"database_version" is required'),
        (
            'resource "google_sql_user"',
            'resource "google_sql_person"',
            'resource type "google_sql_person"',
        ),
    ],
)
def test_mistakes_in_the_google_stack_are_detected(
    google: Stack, right: str, wrong: str, complaint: str
) -> None:
    file = google.folder.parent / "modules/gcp/database/main.tf"
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong))
    try:
        result = google.run("validate")
    finally:
        file.write_text(text)
    assert result.returncode == 1
    assert complaint in re.sub(r"\s+", " ", result.stdout + result.stderr)


@pytest.mark.parametrize(
    "file", sorted(INFRA.rglob("*.tf")), ids=lambda f: str(f.relative_to(INFRA))
)
def test_every_variable_is_described(file: Path) -> None:
    variables = re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', file.read_text(), re.M | re.S)
    assert [name for name, body in variables if "description = " not in body] == []
