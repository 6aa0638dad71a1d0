"""Both stacks, read by Terraform itself: formatted, valid, and planned as their own tests say."""

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
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_locked_provider_is_locked_for_every_platform() -> None:
    """Terraform refuses a provider of whose platform a lock knows nothing; `zh:` are sums of all released packages."""
    for lock in INFRA.rglob(".terraform.lock.hcl"):
        for provider in lock.read_text().split("\nprovider ")[1:]:
            assert len(re.findall(r'"zh:[0-9a-f]{64}"', provider)) >= 10, lock


# A test of Terraform's validates the stack, too.
def test_the_stack_for_aws_plans_what_its_tests_say(aws: Stack) -> None:
    assert "0 failed" in aws.must("test")


def test_roles_of_functions_go_after_what_lambda_removes_by_them(aws: Stack) -> None:
    """Lambda ends the network interfaces of functions by their roles, minutes after the functions."""
    group, rights = (
        f"module.controlplane.aws_{name}"
        for name in ("security_group.functions", "iam_role_policy.function")
    )
    assert f'"{group}" -> "{rights}"' in aws.must("graph")


def test_the_stack_for_google_plans_what_its_tests_say(google: Stack) -> None:
    assert "0 failed" in google.must("test")


def test_a_new_version_of_a_secret_is_made_before_the_one_that_it_replaces_goes() -> None:
    text = (INFRA / "modules/gcp/secrets/main.tf").read_text()
    (version,) = re.findall(
        r'^resource "google_secret_manager_secret_version" .*?^\}', text, re.M | re.S
    )
    assert re.search(r"create_before_destroy += true", version)


EXAMPLES = sorted(path.parent.name for path in INFRA.glob("examples/*/main.tf"))


@pytest.mark.parametrize("name", [e for e in EXAMPLES if e.startswith("gcp-")])
def test_an_example_for_google_is_valid(
    name: str, tmp_path: Path, googles: Mapping[str, str]
) -> None:
    google_stack(tmp_path, googles, f"examples/{name}").must("validate")


@pytest.mark.parametrize("name", [e for e in EXAMPLES if e.startswith("aws-")])
def test_an_example_for_aws_is_valid(name: str, tmp_path: Path, amazons: Mapping[str, str]) -> None:
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
def test_mistakes_in_the_stack_for_google_are_found(
    google: Stack, right: str, wrong: str, complaint: str
) -> None:
    file = google.folder.parent / "modules/gcp/database/main.tf"
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong))
    try:
        done = google.run("validate")
    finally:
        file.write_text(text)
    assert done.returncode == 1
    assert complaint in re.sub(r"\s+", " ", done.stdout + done.stderr)


@pytest.mark.parametrize(
    "file", sorted(INFRA.rglob("*.tf")), ids=lambda f: str(f.relative_to(INFRA))
)
def test_every_variable_is_described(file: Path) -> None:
    variables = re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', file.read_text(), re.M | re.S)
    assert [name for name, body in variables if "description = " not in body] == []
