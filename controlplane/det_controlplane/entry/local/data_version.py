"""Check that this version can use the data of a local cluster, before it changes a file.

If a version rewrote the files and then refused the database, no version could start the cluster.
"""

import os

from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres, PostgresFailed
from det_controlplane.adapters.postgres_binaries import NoPostgres
from det_controlplane.core.interface import PRODUCT_VERSION
from det_controlplane.db.engine.revisions import HEAD
from det_controlplane.entry.local.files import LocalFiles, NewerFiles


class UnusableData(Exception):
    """This version cannot use the data; the message names the cause and the fix."""


def require_usable_folder(files: LocalFiles) -> None:
    """Refuse a data directory in which the cluster cannot create files, with the cause."""
    folder = files.folder
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        cause = f"{nearest} is a file"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        cause = f"this user may not write to {nearest}"
    else:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return
        except OSError as e:
            cause = f"it cannot be created: {e.strerror}"
    raise UnusableData(
        f"the data directory {folder} cannot be used: {cause}. Choose another one with --data-dir"
    )


def require_known_files(files: LocalFiles) -> None:
    """Refuse the files of a newer version."""
    try:
        if files.has_cluster():
            files.desired()
        if files.has_secrets():
            files.read_secrets()
    except NewerFiles as e:
        raise _unusable(files, e) from e


def require_known_schema(files: LocalFiles) -> None:
    """Refuse a database that this version cannot upgrade. Changes no file of the cluster.

    The server is started to read the schema, unless this version was the last one that started the cluster."""
    if files.schema() == HEAD:
        return
    try:
        server = EmbeddedPostgres(files.database)
        if server.is_initialised():
            _look_into(files, server)
    except (NoPostgres, PostgresFailed) as e:
        raise _unusable(files, e) from e


def _look_into(files: LocalFiles, server: EmbeddedPostgres) -> None:
    holder = files.hold()
    if holder is None:
        return  # Another command is starting this cluster. The daemon of this command will fail on the same lock.
    from det_controlplane.db.engine.errors import DatabaseDown
    from det_controlplane.db.engine.migrate import MigrationError, require_known

    with holder, server:
        try:
            require_known(server.url())
        except (MigrationError, DatabaseDown) as e:
            raise _unusable(files, e) from e


def _unusable(files: LocalFiles, cause: Exception) -> UnusableData:
    return UnusableData(
        f"version {PRODUCT_VERSION} cannot use the data in {files.folder}: {cause}. Nothing was changed there;"
        " the version that made it still starts it, and --data-dir or --cluster-name begins a new cluster"
    )
