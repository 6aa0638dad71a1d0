"""Write the next migration, from the newest revision to the schema of `db/schema`: scripts/new_migration.py NAME"""

import sys
import tempfile
from pathlib import Path

from alembic import command
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine.connections import connected, plain_engine
from det_controlplane.db.engine.migrate import HEAD, alembic_config, migrate


def write(name: str, database_url: str) -> Path:
    """Compare a database at the newest revision with the schema. Return the file of the new revision."""
    migrate(database_url)
    engine = plain_engine(database_url)
    with connected(engine) as connection:
        config = alembic_config(connection)
        config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
        number = f"{int(HEAD) + 1:04}"
        script = command.revision(config, message=name, autogenerate=True, rev_id=number)
    engine.dispose()
    assert script is not None
    assert not isinstance(script, list)
    return Path(script.path)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder), throwaway=True) as postgres,
    ):
        print(write(sys.argv[1], postgres.url()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
