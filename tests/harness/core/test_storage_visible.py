"""A checkpoint is not visible if one of its files could not be stored."""

from collections.abc import Callable
from pathlib import Path

import pytest
from determined import core
from determined.common.storage import _directory

from tests.support.fake_master import FakeMaster

Enter = Callable[..., dict[str, str]]


def test_checkpoint_with_a_failed_file_is_not_reported(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster()
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.bin", "b.bin"):
        (source / name).write_text(name)
    copy = _directory._copy_file

    def disk_full(src: str, dst: str) -> None:
        if src.endswith("b.bin"):
            raise OSError(28, "No space left on device")
        copy(src, dst)

    monkeypatch.setattr(_directory, "_copy_file", disk_full)
    with core.init() as context, pytest.raises(OSError, match="No space left"):
        context.checkpoint.upload(source, {"steps_completed": 4})
    assert not master.saved()
