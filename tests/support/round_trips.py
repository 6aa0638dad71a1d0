"""Counts what a connection sends: statements, and commits that no other statement carries."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from det_controlplane.db.prepared import PreparedConnection
from det_controlplane.db.sql import Statement


@contextmanager
def round_trips(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    sent: list[str] = []
    run, send = PreparedConnection._run, PreparedConnection.send_with_next
    commit = PreparedConnection.commit

    def counted(self: Any, prepared: Any, *args: Any, **options: Any) -> Any:
        sent.append(prepared.sql)
        return run(self, prepared, *args, **options)

    def sent_with_next(self: Any, statement: Statement, params: Any) -> None:
        known = len(sent)
        send(self, statement, params)
        if len(sent) == known:
            sent.append(statement.text)

    def committed(self: Any) -> None:
        if self.in_transaction and not self._waiting:
            sent.append("commit")
        commit(self)

    with monkeypatch.context() as patched:
        patched.setattr(PreparedConnection, "_run", counted)
        patched.setattr(PreparedConnection, "send_with_next", sent_with_next)
        patched.setattr(PreparedConnection, "commit", committed)
        yield sent
