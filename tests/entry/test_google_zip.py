"""The zips of a cluster on AWS with pools on Google Cloud."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from det_controlplane.entry.aws import packaging

pytestmark = pytest.mark.heavy("packs the client of Compute Engine, which is large")

MIB = 1024**2
# Limits of Lambda for direct uploads and unpacked functions.
MOST_ZIPPED, MOST_UNPACKED = 50 * MIB, 250 * MIB
ZIPS = ("deployment", "provision", "relay")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("zips")
    packaging.build(out, google=True, relay=True)
    for name in ZIPS:
        with zipfile.ZipFile(out / f"{name}.zip") as archive:
            archive.extractall(out / name)
    return out


def python(task: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """Run code with the zip's content and Lambda's libraries, without this environment."""
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.append({str(task)!r}); {code}",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_provisioning_function_can_load_the_google_client(folder: Path) -> None:
    result = python(folder / "provision", "import google.cloud.compute_v1, det_provisioner_gcp.api")
    assert result.returncode == 0, result.stderr


def test_api_can_verify_google_identities_without_the_client(folder: Path) -> None:
    result = python(
        folder / "deployment", "from google.auth import exceptions, jwt, crypt; crypt.RSAVerifier"
    )
    assert result.returncode == 0, result.stderr
    assert python(folder / "deployment", "import google.cloud.compute_v1").returncode == 1
    assert python(folder / "deployment", "import grpc").returncode == 1


def test_relay_zip_has_no_google_client(folder: Path) -> None:
    result = python(folder / "relay", "import uvicorn, websockets; from google.auth import crypt")
    assert result.returncode == 0, result.stderr
    assert python(folder / "relay", "import google.cloud.compute_v1").returncode == 1
    assert python(folder / "provision", "import uvicorn").returncode == 1


@pytest.mark.parametrize("name", ZIPS)
def test_zip_is_within_lambdas_limits(folder: Path, name: str) -> None:
    assert (folder / f"{name}.zip").stat().st_size < MOST_ZIPPED
    size = sum(path.stat().st_size for path in (folder / name).rglob("*") if path.is_file())
    assert size < MOST_UNPACKED


def test_google_libraries_of_the_api_are_small(folder: Path) -> None:
    own = sum(p.stat().st_size for p in (folder / "deployment").rglob("*") if p.is_file())
    google = [
        p
        for n in ("google", "pyasn1", "pyasn1_modules")
        for p in (folder / "deployment" / n).rglob("*")
    ]
    assert sum(path.stat().st_size for path in google if path.is_file()) < 10 * MIB < own
