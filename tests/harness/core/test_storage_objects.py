"""Object storage over the real S3 protocol, with a server in this process."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from determined.common import storage
from determined.common.storage import _transfer
from determined.common.storage._objects import ObjectStorageManager
from determined.common.storage._parts import Part
from determined.common.storage._s3 import S3StorageManager, S3Store, open_client
from determined.errors import CheckpointCorrupt

from tests.support.checkpoint_folders import checkpoint_in, contents, save
from tests.support.moto import moto_server

MIB = 1024 * 1024
WEIGHTS = 12 * MIB + 17


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto_server("us-east-1") as url:
        yield url


@pytest.fixture
def config(endpoint: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    bucket = f"bucket-{abs(hash(request.node.name)) % 10**9}"
    config = {
        "type": "s3",
        "bucket": bucket,
        "prefix": "team/runs",
        "endpoint_url": endpoint,
        "access_key": "key",
        "secret_key": "secret",
    }
    open_client(config).create_bucket(Bucket=bucket)
    return config


@pytest.fixture
def s3(config: dict[str, Any]) -> S3StorageManager:
    manager = storage.from_config(config)
    assert isinstance(manager, S3StorageManager)
    return manager


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the smallest parts that the protocol allows, so that tests transfer little data."""
    monkeypatch.setattr(_transfer, "PART_BYTES", 5 * MIB)


@pytest.mark.usefixtures("small_parts")
def test_download_returns_uploaded_files(s3: S3StorageManager, tmp_path: Path) -> None:
    source = checkpoint_in(tmp_path, WEIGHTS)
    save(s3, source)
    s3.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    assert (tmp_path / "out" / "code" / "empty").is_dir()
    assert s3.list("uuid-1") == storage.list_directory(source)


def test_object_keys_start_with_prefix_and_id(
    s3: S3StorageManager, config: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("1")
    s3.upload(tmp_path, "uuid-1", ["a"])
    Contents = open_client(config).list_objects_v2(Bucket=config["bucket"])["Contents"]
    assert [item["Key"] for item in Contents] == ["team/runs/uuid-1/a"]


@pytest.mark.usefixtures("small_parts")
def test_selector_is_applied_before_the_download(s3: S3StorageManager, tmp_path: Path) -> None:
    save(s3, checkpoint_in(tmp_path, WEIGHTS))
    s3.download("uuid-1", tmp_path / "out", lambda path: path.endswith(".py"))
    assert list(contents(tmp_path / "out")) == ["code/model.py"]


def test_rejects_changed_object(
    s3: S3StorageManager, config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("determined.common.storage._transfer.time.sleep", lambda _: None)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "w").write_text("good")
    save(s3, tmp_path / "source")
    key = "team/runs/uuid-1/w"
    open_client(config).put_object(Bucket=config["bucket"], Key=key, Body=b"evil")
    with pytest.raises(CheckpointCorrupt, match="w"):
        s3.download("uuid-1", tmp_path / "out")
    assert not (tmp_path / "out" / "w").exists()


def test_checkpoint_without_checksums_can_be_downloaded(
    s3: S3StorageManager, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "w").write_text("theirs")
    s3.upload(tmp_path / "source", "uuid-1")
    s3.download("uuid-1", tmp_path / "out")
    assert (tmp_path / "out" / "w").read_text() == "theirs"


def test_delete_by_glob_returns_remaining_objects(s3: S3StorageManager, tmp_path: Path) -> None:
    (tmp_path / "s" / "d").mkdir(parents=True)
    for name in ("a.pt", "b.json", "d/c.pt"):
        (tmp_path / "s" / name).write_text(name)
    save(s3, tmp_path / "s")
    assert s3.delete("uuid-1", ["**/*.pt"]) == {"b.json": 6}
    assert s3.delete("uuid-1") == {}
    assert s3.list("uuid-1") == {}


def test_deletes_more_than_a_page_of_objects(s3: S3StorageManager, tmp_path: Path) -> None:
    for n in range(1003):
        (tmp_path / f"{n}").write_text("x")
    s3.upload(tmp_path, "uuid-1")
    assert len(s3.list("uuid-1")) == 1003
    assert s3.delete("uuid-1") == {}
    assert s3.list("uuid-1") == {}


def test_error_names_missing_checkpoint(s3: S3StorageManager, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="uuid-9"):
        s3.download("uuid-9", tmp_path / "out")


def test_probe_deletes_its_objects(s3: S3StorageManager, config: dict[str, Any]) -> None:
    s3.validate()
    assert "Contents" not in open_client(config).list_objects_v2(Bucket=config["bucket"])


def test_missing_bucket_fails_the_probe(config: dict[str, Any]) -> None:
    with pytest.raises(FileNotFoundError):
        storage.from_config({**config, "bucket": "no-such-bucket"}).validate()


class FlakyStore(S3Store):
    """A store that breaks every range once after its first bytes, and every second part."""

    def __init__(self, good: S3Store) -> None:
        self.__dict__.update(good.__dict__)
        self.ranges: list[int] = []
        self.parts: list[int] = []

    def get_range(self, key: str, start: int, length: int) -> Iterator[bytes]:
        first = start not in self.ranges
        self.ranges.append(start)
        for chunk in super().get_range(key, start, length):
            yield chunk[:100] if first else chunk
            if first:
                raise ConnectionResetError("cut")

    def put_part(self, key: str, upload_id: str, number: int, part: Part) -> str:
        self.parts.append(number)
        if self.parts.count(number) == 1 and number % 2:
            raise ConnectionResetError("cut")
        return super().put_part(key, upload_id, number, part)


@pytest.mark.usefixtures("small_parts")
def test_broken_connection_retries_only_its_part(
    s3: S3StorageManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("determined.common.storage._transfer.time.sleep", lambda _: None)
    flaky = FlakyStore(s3._store)  # type: ignore[arg-type]
    manager = ObjectStorageManager(flaky, None, "s3://flaky")
    source = checkpoint_in(tmp_path, WEIGHTS)
    save(manager, source)
    manager.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    assert sorted(flaky.parts) == [1, 1, 2, 3, 3]
    assert len(flaky.ranges) == 6


@pytest.mark.usefixtures("small_parts")
def test_download_resumes_an_interrupted_one(s3: S3StorageManager, tmp_path: Path) -> None:
    source = checkpoint_in(tmp_path, WEIGHTS)
    save(s3, source)
    (tmp_path / "out").mkdir()
    half = (source / "weights.bin").read_bytes()[: 10 * MIB]
    (tmp_path / "out" / "weights.bin.partial").write_bytes(half)
    counting = FlakyStore(s3._store)  # type: ignore[arg-type]
    counting.ranges = [0, 5 * MIB, 10 * MIB]
    ObjectStorageManager(counting, "team/runs", "s3://x").download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    assert counting.ranges[3:] == [10 * MIB]


def stream(manager: storage.StorageManager, path: str, content: bytes, step: int = MIB) -> None:
    """Write a file in pieces, as `torch.save` writes."""
    with manager.open_write("uuid-1", path, len(content)) as file:
        for start in range(0, len(content), step):
            file.write(memoryview(content)[start : start + step])
    manager.write_checksums("uuid-1", {path: file.checksum})


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("size", [0, 17, 5 * MIB, WEIGHTS])
def test_streamed_file_can_be_downloaded(s3: S3StorageManager, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    stream(s3, "weights", content, step=MIB + 1)
    s3.download("uuid-1", tmp_path / "out")
    assert (tmp_path / "out" / "weights").read_bytes() == content
    assert (
        s3.read_range("uuid-1", "weights", size // 2, size // 4)
        == content[size // 2 : size // 2 + size // 4]
    )


@pytest.mark.usefixtures("small_parts")
def test_failed_stream_leaves_no_object_and_no_parts(
    s3: S3StorageManager, config: dict[str, Any]
) -> None:
    def fail() -> None:
        with s3.open_write("uuid-1", "weights", WEIGHTS) as file:
            file.write(bytes(WEIGHTS))
            raise KeyError("no such layer")

    with pytest.raises(KeyError):
        fail()
    client = open_client(config)
    assert "Uploads" not in client.list_multipart_uploads(Bucket=config["bucket"])
    assert s3.list("uuid-1") == {}


@pytest.mark.usefixtures("small_parts")
def test_streamed_part_is_retried(
    s3: S3StorageManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("determined.common.storage._transfer.time.sleep", lambda _: None)
    flaky = FlakyStore(s3._store)  # type: ignore[arg-type]
    content = os.urandom(WEIGHTS)
    stream(ObjectStorageManager(flaky, "team/runs", "s3://x"), "weights", content)
    s3.download("uuid-1", tmp_path / "out")
    assert (tmp_path / "out" / "weights").read_bytes() == content
    assert sorted(flaky.parts) == [1, 1, 2, 3, 3]


def test_storage_can_be_sent_to_another_process(s3: S3StorageManager) -> None:
    stream(pickle.loads(pickle.dumps(s3)), "a", b"1")
    assert s3.list("uuid-1") == {"a": 1}


def test_rejects_keys_that_leave_the_target(
    s3: S3StorageManager, config: dict[str, Any], tmp_path: Path
) -> None:
    key = "team/runs/uuid-1/../../evil"
    open_client(config).put_object(Bucket=config["bucket"], Key=key, Body=b"x")
    with pytest.raises(ValueError, match="leads out"):
        s3.download("uuid-1", tmp_path / "out")


@pytest.mark.parametrize("bad", ["", "../x", "a//b", "/a", "a\\b"])
def test_rejects_invalid_ids(s3: S3StorageManager, bad: str) -> None:
    with pytest.raises(ValueError, match="not valid"):
        s3.list(bad)
