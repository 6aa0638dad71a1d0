"""Databases of moto with content: snapshots keep it, and restored databases have it again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from moto.rds.models import RDSBackend

from tests.support.postgres import DatabaseServer


@contextmanager
def holding(server: DatabaseServer, database_url: str) -> Iterator[dict[str, str]]:
    """Let every cluster of Aurora be this database; yield the copies that snapshots are, by name."""
    own = urlsplit(database_url).path.lstrip("/")
    copies: dict[str, str] = {}
    make, delete, restore = (
        RDSBackend.create_db_cluster_snapshot,
        RDSBackend.delete_db_cluster,
        RDSBackend.restore_db_cluster_from_snapshot,
    )

    def made(self: Any, cluster: str, snapshot: str, *more: Any, **options: Any) -> Any:
        result = make(self, cluster, snapshot, *more, **options)
        copies[snapshot] = f"{own}_snapshot_{len(copies)}"
        server.copy(own, copies[snapshot])
        return result

    def deleted(self: Any, *arguments: Any, **options: Any) -> Any:
        result = delete(self, *arguments, **options)
        server.copy("template1", own)
        return result

    def restored(self: Any, snapshot: str, *more: Any, **options: Any) -> Any:
        name = snapshot.rpartition(":")[2]  # moto does not know it by its ARN
        result = restore(self, name, *more, **options)
        server.copy(copies[name], own)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RDSBackend, "create_db_cluster_snapshot", made)
        patch.setattr(RDSBackend, "delete_db_cluster", deleted)
        patch.setattr(RDSBackend, "restore_db_cluster_from_snapshot", restored)
        yield copies
