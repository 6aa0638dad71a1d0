"""Databases remember the checksum of each migration that they took: one that has landed never changes."""

import hashlib
from pathlib import Path

from det_controlplane.db.migrate import FOLDER

# What `sha256sum *.sql` prints in the folder of the migrations.
LANDED = Path(__file__).with_name("landed_migrations.sha256")


def test_landed_migrations_are_as_they_landed_and_new_ones_are_recorded() -> None:
    landed = dict(line.split()[::-1] for line in LANDED.read_text().splitlines())
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(FOLDER.glob("*.sql"))
    }
    for name, checksum in landed.items():
        assert found.get(name) == checksum, (
            f"{name} has landed and was changed or removed since: databases that took it refuse to start. "
            f"Restore it (`git checkout HEAD -- {FOLDER / name}`) and put the change into a new migration, "
            f"{len(found) + 1:04}_what_it_does.sql"
        )
    new = [f"{checksum}  {name}" for name, checksum in found.items() if name not in landed]
    assert not new, f"a migration that lands stays as it is: append to {LANDED}\n" + "\n".join(new)
