"""The backup guide blocks deletions with the same lock as the program."""

from pathlib import Path

from det_controlplane.db.cluster.backups import DELETIONS_LOCK

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/backup.md"


def test_guide_uses_the_number_of_the_lock() -> None:
    guide = GUIDE.read_text("utf-8")
    assert f"pg_advisory_lock({DELETIONS_LOCK})" in guide
    assert f"pg_advisory_unlock({DELETIONS_LOCK})" in guide
