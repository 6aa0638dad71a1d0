"""Counts what a connection sends: statements, and commits that travel alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from det_controlplane.db.prepared import PreparedConnection


@contextmanager
def round_trips(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    sent: list[str] = []
    run, commit = PreparedConnection._run, PreparedConnection.commit

    def counted(self: Any, prepared: Any, *args: Any, **options: Any) -> Any:
        sent.append(prepared.sql)
        return run(self, prepared, *args, **options)

    def committed(self: Any) -> None:
        if self.in_transaction:
            sent.append("commit")
        commit(self)

    with monkeypatch.context() as patched:
        patched.setattr(PreparedConnection, "_run", counted)
        patched.setattr(PreparedConnection, "commit", committed)
        yield sent
