"""Google Cloud Storage with Google's client and with ours, against an emulator."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from determined.common import storage
from determined.common.storage import _transfer
from determined.errors import CheckpointCorrupt
from google.cloud.storage import Client

from tests.support.checkpoint_folders import checkpoint_in, contents, save
from tests.support.fake_gcs import FakeGCS, serving
from tests.support.request_barrier import RequestBarrier

PART = 256 * 1024
WEIGHTS = 2 * PART + 17


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGCS]:
    fake = FakeGCS()
    monkeypatch.setattr(_transfer, "PART_BYTES", PART)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with serving(fake) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        Client().create_bucket("models")
        yield fake


@pytest.fixture(params=["google-cloud-storage", "without"])
def gcs(
    fake: FakeGCS, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> storage.StorageManager:
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "google.cloud", None)
    return storage.from_config({"type": "gcs", "bucket": "models", "prefix": "team/runs"})


def keys() -> list[str]:
    return [blob.name for blob in Client().list_blobs("models")]


def test_gcs_returns_uploaded_files(gcs: storage.StorageManager, tmp_path: Path) -> None:
    source = checkpoint_in(tmp_path, WEIGHTS)
    save(gcs, source)
    gcs.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    assert gcs.list("uuid-1") == storage.list_directory(source)


def test_gcs_composes_more_parts_than_one_request_allows(
    gcs: storage.StorageManager, tmp_path: Path
) -> None:
    source = checkpoint_in(tmp_path, 39 * PART + 17)
    save(gcs, source)
    gcs.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    assert not [key for key in keys() if ".part-" in key]


def test_streamed_gcs_file_can_be_downloaded(gcs: storage.StorageManager, tmp_path: Path) -> None:
    content = os.urandom(39 * PART + 17)
    with gcs.open_write("uuid-1", "weights", len(content)) as file:
        for start in range(0, len(content), PART // 3):
            file.write(content[start : start + PART // 3])
    gcs.write_checksums("uuid-1", {"weights": file.checksum})
    gcs.download("uuid-1", tmp_path / "out")
    assert (tmp_path / "out" / "weights").read_bytes() == content
    assert gcs.read_range("uuid-1", "weights", PART - 5, 10) == content[PART - 5 : PART + 5]
    assert not [key for key in keys() if ".part-" in key]


def test_gcs_keys_start_with_prefix_and_id(gcs: storage.StorageManager, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    gcs.upload(tmp_path, "uuid-1", ["a"])
    assert keys() == ["team/runs/uuid-1/a"]
    assert gcs.url("uuid-1") == "gs://models/team/runs/uuid-1"


def test_gcs_transfers_many_small_files_at_once(
    gcs: storage.StorageManager, fake: FakeGCS, tmp_path: Path
) -> None:
    for n in range(200):
        (tmp_path / f"{n}").write_text(f"{n}")
    for moving, move in (
        (("POST", "/upload/"), lambda: gcs.upload(tmp_path, "uuid-1")),
        (("GET", "/download/"), lambda: gcs.download("uuid-1", tmp_path / "out")),
        (("DELETE", "/storage/"), lambda: gcs.delete("uuid-1")),
    ):
        meeting = RequestBarrier(_transfer.SMALL_THREADS)
        fake.before_answer = attended_by(meeting, *moving)
        move()
        assert meeting.held, f"fewer than {_transfer.SMALL_THREADS} at once: {moving}"
    assert len(contents(tmp_path / "out")) == 200
    assert keys() == []


def attended_by(
    meeting: RequestBarrier, expected_method: str, prefix: str
) -> Callable[[str, str], None]:
    """Return a hook that lets matching requests wait for each other."""

    def before_answer(method: str, target: str) -> None:
        if method == expected_method and target.startswith(prefix):
            meeting.attend()

    return before_answer


def test_gcs_delete_by_glob_returns_remaining_objects(
    gcs: storage.StorageManager, tmp_path: Path
) -> None:
    save(gcs, checkpoint_in(tmp_path, WEIGHTS))
    assert "weights.bin" not in gcs.delete("uuid-1", ["**/*.bin", "code/**"])
    assert gcs.list("uuid-1") == {"nothing": 0, "ünï code+&=.txt": 8}
    assert gcs.delete("uuid-1") == {}
    assert keys() == []


def test_gcs_download_resumes_an_interrupted_one(
    gcs: storage.StorageManager, fake: FakeGCS, tmp_path: Path
) -> None:
    source = checkpoint_in(tmp_path, WEIGHTS)
    save(gcs, source)
    (tmp_path / "out").mkdir()
    half = (source / "weights.bin").read_bytes()[: 2 * PART]
    (tmp_path / "out" / "weights.bin.partial").write_bytes(half)
    gcs.download("uuid-1", tmp_path / "out", lambda path: path == "weights.bin")
    assert contents(tmp_path / "out") == {"weights.bin": (source / "weights.bin").read_bytes()}
    assert fake.ranges == [f"bytes={2 * PART}-{2 * PART + 16}"]


def test_every_gcs_request_can_fail_once(
    gcs: storage.StorageManager, fake: FakeGCS, tmp_path: Path
) -> None:
    source = checkpoint_in(tmp_path, WEIGHTS)
    problems: set[tuple[str, str]] = set()

    def first_time(method: str, target: str) -> bool:
        first = (method, target) not in problems
        problems.add((method, target))
        return first

    fake.breaks = first_time
    save(gcs, source)
    gcs.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    assert gcs.delete("uuid-1") == {}
    assert {method for method, _ in problems} >= {"GET", "POST", "DELETE"}


def test_failed_gcs_upload_leaves_no_parts(
    gcs: storage.StorageManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> str:
        raise PermissionError("may not compose")

    monkeypatch.setattr("determined.common.storage._gcs.GCSStore._compose", refused)
    with pytest.raises(PermissionError, match="may not compose"):
        gcs.upload(checkpoint_in(tmp_path, WEIGHTS), "uuid-1", ["weights.bin"])
    assert keys() == []


def test_rejects_changed_gcs_object(gcs: storage.StorageManager, tmp_path: Path) -> None:
    save(gcs, checkpoint_in(tmp_path, WEIGHTS))
    blob = Client().bucket("models").blob("team/runs/uuid-1/code/model.py")
    blob.upload_from_string(b"x = 2")
    with pytest.raises(CheckpointCorrupt, match=r"model\.py"):
        gcs.download("uuid-1", tmp_path / "out")


def test_error_names_missing_gcs_object(gcs: storage.StorageManager, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="checkpoint uuid-9 is not in gs://models"):
        gcs.download("uuid-9", tmp_path / "out")
    manager = storage.from_config({"type": "gcs", "bucket": "no-such-bucket"})
    with pytest.raises(FileNotFoundError, match=r"gs://no-such-bucket/.*does not exist"):
        manager.validate()
    with pytest.raises(FileNotFoundError, match="gs://no-such-bucket/uuid-1/ does not exist"):
        manager.list("uuid-1")
