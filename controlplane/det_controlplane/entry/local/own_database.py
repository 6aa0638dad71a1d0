"""`--db URL`: a PostgreSQL server that runs already, checked before any process starts."""

from urllib.parse import urlsplit

_SCHEMES = ("postgresql", "postgres")


class BadDatabase(Exception):
    """The database of `--db` cannot be used, and why."""


def prepare(url: str) -> bool:
    """Migrate the database; return whether its built-in accounts still await their first password."""
    from det_controlplane.db.engine.database import Database
    from det_controlplane.db.engine.errors import BadUrl, DatabaseDown
    from det_controlplane.db.engine.migrate import MigrationError, migrate
    from det_controlplane.services.cluster.first_start import awaits_first_password

    _check_form(url)
    try:
        migrate(url)
    except DatabaseDown as e:
        raise BadDatabase(
            f"--db: no PostgreSQL answers at {_remove_password(url)} ({_innermost(e)}): start it,"
            " correct the URL, or leave --db out and get a database with the cluster"
        ) from e
    except (MigrationError, BadUrl) as e:
        raise BadDatabase(f"--db: {_remove_password(url)} cannot be used: {e}") from e
    db = Database(url, pool_size=1)
    try:
        return awaits_first_password(db)
    finally:
        db.dispose()


def _check_form(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in _SCHEMES and parts.port != 0
    except ValueError:  # a port that is not a number
        is_valid = False
    if not is_valid:
        raise BadDatabase(
            "--db: must be a URL like postgresql://USER:PASSWORD@HOST:5432/NAME, with the characters @, :, / and % "
            "of a password written as %40, %3A, %2F and %25"
        )


def _remove_password(url: str) -> str:
    """Return a URL without its password."""
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{where}{parts.path}"


def _innermost(error: BaseException) -> str:
    """Return the message of the original cause without the prefixes of the layers above it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
