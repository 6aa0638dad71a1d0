"""The archive of a model definition contains the sent files for every tar program."""

import base64
import io
import subprocess
import tarfile
from pathlib import Path

from det_controlplane.services.code.model_definitions import File, archive

LONG = "/".join(["a" * 60] * 5) + "/train.py"
FILES = (
    File("src", 53, "", 1_700_000_000, 0o755),
    File("src/train.py", 48, base64.b64encode(b"print()\n").decode(), 1_700_000_000, 0o644),
    File("src/modèle.py", 48, base64.b64encode(b"x" * 512).decode(), 1_700_000_001, 0o600),
    File("src/empty", 48, "", 0, 0o644),
    File(LONG, 48, base64.b64encode(b"y" * 1_000).decode(), 3 << 40, 0o644),
)


def test_long_and_non_ascii_names_times_and_modes_are_preserved() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(FILES)), mode="r:gz") as tar:
        members = [(m.name, m.isdir(), m.mtime, m.mode, m.size) for m in tar]
        last = tar.extractfile(LONG)
        assert last is not None
        assert last.read() == b"y" * 1_000
    assert members == [
        ("src", True, 1_700_000_000, 0o755, 0),
        ("src/train.py", False, 1_700_000_000, 0o644, 8),
        ("src/modèle.py", False, 1_700_000_001, 0o600, 512),
        ("src/empty", False, 0, 0o644, 0),
        (LONG, False, 3 << 40, 0o644, 1_000),
    ]


def test_system_tar_reads_the_archive_without_warnings(tmp_path: Path) -> None:
    (tmp_path / "context.tgz").write_bytes(archive(FILES[:4]))
    result = subprocess.run(
        ["tar", "-xvzf", "context.tgz"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stderr == ""
    assert (tmp_path / "src" / "train.py").read_bytes() == b"print()\n"


def test_equal_files_give_equal_archives() -> None:
    assert archive(FILES) == archive(FILES)
