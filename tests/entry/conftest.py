"""Fixtures for tests of the control plane on Lambda."""

import os
import zipfile
from pathlib import Path

import pytest
from det_controlplane.entry.aws import packaging
from filelock import FileLock


@pytest.fixture(scope="session")
def deployment_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip as a deployment would upload it, built once for all workers of a run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    zip_path = folder / "deployment-zip"
    with FileLock(folder / "deployment-zip.lock"):
        if not zip_path.exists():
            files = {"cluster.yaml": b"cluster_name: of the tests\n"}
            package = packaging.build(tmp_path_factory.mktemp("zip"), files, relay=True)
            package.parent.rename(zip_path)
    return zip_path / "deployment.zip"


@pytest.fixture(scope="session")
def task_root(deployment_zip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip unpacked as Lambda does."""
    folder = tmp_path_factory.mktemp("task")
    with zipfile.ZipFile(deployment_zip) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    return {
        "DET_DB_URL": database_url,
        "DET_OBJECTS": str(tmp_path / "objects"),
        "DET_OBJECTS_SECRET": "a secret of some length",
        "DET_CLUSTER_CONFIG": '{"checkpoint_storage": {"type": "s3", "bucket": "checkpoints"}}',
        "DET_BOOTSTRAP_TOKEN": "bootstrap",
        "DET_INITIAL_USER_PASSWORD": "Password1",
    }
