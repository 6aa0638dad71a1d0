"""The zips of a cluster with functions on arm64, built on another processor."""

import zipfile
from pathlib import Path

import pytest
from det_controlplane.entry.aws import packaging

pytestmark = pytest.mark.heavy("fetches libraries for another processor")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zips")
    packaging.build(folder, relay=True, architecture="arm64")
    return folder


@pytest.mark.parametrize("name", ["deployment", "keys", "relay"])
def test_libraries_of_an_arm_zip_are_built_for_arm(out: Path, name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(out / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    libraries = {
        path.relative_to(tmp_path).parts[0]: packaging.elf_machine(path)
        for path in tmp_path.rglob("*.so*")
    }
    assert {"pydantic_core", "cryptography"} <= libraries.keys()
    assert set(libraries.values()) == {packaging.MACHINES["arm64"]}


def test_arm_zip_has_the_same_modules(out: Path, deployment_zip: Path) -> None:
    def modules(path: Path) -> set[str]:
        with zipfile.ZipFile(path) as archive:
            return {name for name in archive.namelist() if name.endswith((".py", ".pyc"))}

    assert modules(out / "relay.zip") == modules(deployment_zip.with_name("relay.zip"))
