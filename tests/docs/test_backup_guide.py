"""The guide to backups holds deletions back by the lock that the program uses."""

from pathlib import Path

from det_controlplane.db.backups import DELETIONS_LOCK

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/backup.md"


def test_the_lock_is_the_programs() -> None:
    guide = GUIDE.read_text("utf-8")
    assert f"pg_advisory_lock({DELETIONS_LOCK})" in guide
    assert f"pg_advisory_unlock({DELETIONS_LOCK})" in guide
