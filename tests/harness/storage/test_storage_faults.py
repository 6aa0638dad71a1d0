"""Checkpoints on S3 over a failing network: lost, partial, late, changed and rejected responses."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from determined.common import storage
from determined.common.storage import _transfer
from determined.common.storage._s3 import open_client
from determined.errors import CheckpointCorrupt

from tests.support.broken_proxy import BrokenProxy, Fault, broken_proxy
from tests.support.checkpoint_folders import contents, save
from tests.support.moto import moto_server

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto_server("us-east-1") as url:
        yield url


@pytest.fixture
def proxied(endpoint: str) -> Iterator[tuple[BrokenProxy, str]]:
    with broken_proxy(endpoint) as proxy_and_address:
        yield proxy_and_address


@pytest.fixture
def proxy(proxied: tuple[BrokenProxy, str]) -> BrokenProxy:
    return proxied[0]


@pytest.fixture
def config(
    endpoint: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Return a configuration that bypasses the proxy, to inspect the stored objects."""
    monkeypatch.setattr(_transfer, "PART_BYTES", 5 * MIB)
    monkeypatch.setattr("time.sleep", lambda _: None)
    bucket = f"faults-{abs(hash(request.node.name)) % 10**9}"
    keys = {"access_key": "key", "secret_key": "secret"}
    settings = {"type": "s3", "bucket": bucket, "endpoint_url": endpoint, **keys}
    open_client(settings).create_bucket(Bucket=bucket)
    return settings


@pytest.fixture
def s3(config: dict[str, Any], proxied: tuple[BrokenProxy, str]) -> storage.StorageManager:
    return storage.from_config({**config, "endpoint_url": proxied[1]})


def checkpoint_in(folder: Path) -> Path:
    source = folder / "source"
    source.mkdir()
    (source / "weights.bin").write_bytes(os.urandom(6 * MIB))
    for n in range(20):
        (source / f"{n}.json").write_text(f'{{"n": {n}}}')
    return source


@pytest.mark.parametrize("fault", ["lost", "unanswered", "busy"])
def test_upload_completes_if_every_part_and_file_fails_once(
    s3: storage.StorageManager, proxy: BrokenProxy, tmp_path: Path, fault: Fault
) -> None:
    proxy.once_each(fault, ("PUT",))
    source = checkpoint_in(tmp_path)
    save(s3, source)
    proxy.faults = lambda method, target: None
    s3.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)


@pytest.mark.parametrize("fault", ["lost", "half", "busy", "garbled"])
def test_download_completes_if_every_request_fails_once(
    s3: storage.StorageManager,
    config: dict[str, Any],
    proxy: BrokenProxy,
    tmp_path: Path,
    fault: Fault,
) -> None:
    source = checkpoint_in(tmp_path)
    save(storage.from_config(config), source)
    proxy.once_each(fault, ("GET",))
    if fault == "garbled":  # a listing has no checksum; in production TLS protects it
        spoil = proxy.faults
        proxy.faults = lambda m, t: spoil(m, t) if t.endswith((".bin", "/1.json")) else None
    s3.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)


def test_rejects_bytes_that_always_arrive_changed(
    s3: storage.StorageManager, config: dict[str, Any], proxy: BrokenProxy, tmp_path: Path
) -> None:
    save(storage.from_config(config), checkpoint_in(tmp_path))
    proxy.faults = lambda method, target: "garbled" if target.endswith("weights.bin") else None
    with pytest.raises(CheckpointCorrupt, match=r"weights\.bin: bytes .* differ"):
        s3.download("uuid-1", tmp_path / "out")
    assert not (tmp_path / "out" / "weights.bin").exists()


def test_failed_upload_leaves_no_billed_parts(
    s3: storage.StorageManager, config: dict[str, Any], proxy: BrokenProxy, tmp_path: Path
) -> None:
    proxy.faults = lambda method, target: "refused" if "partNumber=2" in target else None
    with pytest.raises(PermissionError, match=r"uuid-1/weights\.bin may not be used"):
        s3.upload(checkpoint_in(tmp_path), "uuid-1", ["weights.bin"])
    assert s3.list("uuid-1") == {}
    assert "Uploads" not in open_client(config).list_multipart_uploads(Bucket=config["bucket"])


def test_retried_download_fetches_only_missing_parts(
    s3: storage.StorageManager, proxy: BrokenProxy, tmp_path: Path
) -> None:
    source = checkpoint_in(tmp_path)
    save(s3, source)
    fetched = []

    def second_part_is_refused(method: str, target: str) -> Fault | None:
        if target.endswith("weights.bin"):
            fetched.append(target)
            return "refused" if len(fetched) > 1 else None
        return None

    proxy.faults = second_part_is_refused
    with pytest.raises(PermissionError, match=r"weights\.bin"):
        s3.download("uuid-1", tmp_path / "out")
    assert not (tmp_path / "out" / "weights.bin").exists()
    proxy.faults = lambda method, target: None
    proxy.requests.clear()
    s3.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    assert len([t for _, t in proxy.requests if t.endswith("weights.bin")]) == 1
