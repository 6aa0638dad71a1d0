"""A full disk loses only the data that does not fit."""

import os
import pathlib
import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from determined.common.pipes import PipeReader
from determined.common.storage import _transfer
from determined.launch._workers import prefix_lines
from determined.tensorboard._sync import TensorboardSync

from tests.support.full_disk import full_disk


class DeferredPool:
    """A thread pool that runs its jobs in `run`, in the calling thread."""

    def __init__(self) -> None:
        self.work: list[Any] = []

    def submit(self, *work: Any) -> "Future[None]":
        self.work.append(work)
        return Future()

    def run(self) -> None:
        for function, *arguments in self.work:
            function(*arguments)


def test_download_on_full_disk_fails_and_can_be_retried(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    content = os.urandom(1000)
    transfer: Any = SimpleNamespace()
    transfer._store = SimpleNamespace(
        get_range=lambda key, start, length: [content[start : start + length]]
    )
    pool: Any = DeferredPool()
    target = tmp_path / "weights"
    part = _transfer._PartedDownload(transfer, "key", str(target), len(content), None)
    part.start(pool)
    with full_disk(990), pytest.raises(OSError, match="large"):
        pool.run()
    pool.run()
    part.finish()
    assert target.read_bytes() == content


def test_full_output_disk_does_not_block_a_worker() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, open("/dev/full", "wb", buffering=0) as full:
        for _ in range(3):
            os.write(writing, b"a line\n")
        os.close(writing)
        prefix_lines(PipeReader(pipe), full.fileno(), b"[rank=0] ", threading.Lock())
        assert not PipeReader(pipe).is_behind()


class FullStorage:
    """A storage that fails every upload."""

    def upload(self, src: str, dst: str) -> None:
        raise OSError("no room")


def test_failed_tensorboard_upload_does_not_fail_training(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage: Any = FullStorage()
    sync = TensorboardSync(storage, tmp_path, "here", 0, automatic=True)
    (sync.path() / "events").write_text("points")
    sync.close()
    assert "cannot upload TensorBoard files: no room" in caplog.text


def test_removed_file_does_not_fail_the_upload(
    tmp_path: pathlib.Path,
) -> None:
    paths: list[list[str]] = []
    storage: Any = SimpleNamespace(upload=lambda src, dst: paths.append(os.listdir(src)))
    sync = TensorboardSync(storage, tmp_path, "here", 0, automatic=False)
    (sync.path() / "events").write_text("points")
    (sync.path() / "removed").symlink_to(tmp_path / "nothing")
    sync.upload()
    assert paths == [["events"]]
