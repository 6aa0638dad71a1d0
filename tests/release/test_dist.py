"""`make dist` builds the files of a release, which anybody can verify and build again."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from scripts.release.bom import Libraries, WrongVersion
from scripts.release.build import digest
from tests.support.ports import free_port
from tests.support.release_checkout import ROOT, release_checkout

WHEEL = "determined_serverless-0.1.0-py3-none-any.whl"
AGENT_WHEEL = "agent/determined_serverless-0.1.0-1agent-py3-none-any.whl"
SOURCES = "determined_serverless-0.1.0.tar.gz"


def build(
    checkout: Path, out: Path, *options: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "scripts.release.build", str(out), *options],
        cwd=checkout,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_checkout(tmp_path_factory.mktemp("one") / "checkout")


@pytest.fixture(scope="module")
def dist(checkout: Path) -> Path:
    out = checkout.parent / "dist"
    result = build(checkout, out, "--without", "lambda", "--without", "image")
    assert result.returncode == 0, result.stderr
    return out


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.mark.slow
def test_another_checkout_gives_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    other = release_checkout(tmp_path / "of/another/person")
    for path in (other / "README.md", other / "cli/det_cli/main.py"):
        path.chmod(0o600)
        os.utime(path, (1, 1))
    (other / "cli/det_cli/left_over.py").write_text("")
    (other / ".git/info/exclude").write_text("left_over.py\n")
    options = ("--without", "lambda", "--without", "image")
    result = build(other, tmp_path / "dist", *options, TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "dist/SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def test_sums_list_and_match_every_file(dist: Path) -> None:
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=dist, check=True
    )
    listed = {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    files = {p.relative_to(dist).as_posix() for p in dist.rglob("*") if p.is_file()}
    assert listed == files - {"SHA256SUMS"}
    assert {WHEEL, SOURCES, AGENT_WHEEL} <= listed


def test_agent_wheel_lacks_only_the_terraform_stacks(dist: Path) -> None:
    def modules(name: str) -> set[str]:
        with zipfile.ZipFile(dist / name) as archive:
            return {n for n in archive.namelist() if n.endswith((".py", ".tf"))}

    missing = modules(WHEEL) - modules(AGENT_WHEEL)
    assert missing
    assert {Path(name).suffix for name in missing} == {".tf"}


@pytest.mark.parametrize("name", [WHEEL, SOURCES, AGENT_WHEEL])
def test_bill_of_materials_lists_locked_libraries(dist: Path, checkout: Path, name: str) -> None:
    text = (dist / f"{name}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    lock = (checkout / "requirements.lock").read_text()
    components = json.loads(text)["components"]
    assert {"pydantic", "boto3", "botocore"} <= {c["name"] for c in components}
    for component in components:
        assert re.search(rf"^{component['name']}=={component['version']}\b", lock, re.M)


@pytest.mark.parametrize("name", [WHEEL, SOURCES, AGENT_WHEEL])
def test_provenance_names_the_file_and_the_commit(dist: Path, checkout: Path, name: str) -> None:
    statement = read(dist / f"{name}.intoto.json")
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True
    )
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    (subject,) = statement["subject"]
    assert subject["digest"]["sha256"] == digest(dist / name)
    sources = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert sources[0]["digest"] == {"gitCommit": commit.stdout.strip()}


def test_uncommitted_changes_are_refused(tmp_path: Path) -> None:
    checkout = release_checkout(tmp_path / "checkout")
    (checkout / "README.md").write_text("changed")
    result = build(checkout, tmp_path / "dist")
    assert result.returncode == 1
    assert "1 files differ from the commit, such as README.md" in result.stderr


def test_library_of_another_version_is_refused() -> None:
    libraries = Libraries({"pydantic": frozenset({"2.0"})})
    with pytest.raises(WrongVersion, match=r"would contain pydantic 1\.9, .* has 2\.0"):
        libraries.check([("Pydantic", "1.9")])


@pytest.mark.heavy("downloads the libraries of the functions twice")
def test_lambda_zip_is_the_same_in_each_build(checkout: Path, tmp_path: Path) -> None:
    for folder in ("first", "second"):
        result = build(checkout, tmp_path / folder, "--without", "image")
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "first/SHA256SUMS").read_text() == (
        tmp_path / "second/SHA256SUMS"
    ).read_text()
    (bill,) = (tmp_path / "first").glob("*-lambda-*.zip.cdx.json")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill.read_text()) is None
    assert {"pydantic", "cryptography"} <= {c["name"] for c in read(bill)["components"]}


@pytest.mark.heavy("installs the wheel in an empty environment")
def test_wheel_starts_a_cluster_without_a_checkout(dist: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([ROOT / "scripts/uv-venv", venv, dist / WHEEL], check=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DET_"))}
    result = subprocess.run(
        [ROOT / "scripts/release/try-wheel", dist / WHEEL],
        cwd=tmp_path,
        env={**environment, "DET": str(venv / "bin/det"), "PORT": str(free_port())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "the cluster is up after" in result.stderr
    assert "determined-agent-0" in result.stdout
