"""A request that only reads learns who asks within the round trip of its first read."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from det_controlplane.db.engine import Database, Params, Tx
from det_controlplane.db.prepared import Question
from det_controlplane.db.sql import Statement
from det_controlplane.services.principal import User


class SigningIn(Database):
    """The database of one such request. Nothing is told of it before its user is known and admitted.

    `admit` makes the user of the answer to `who`, and raises if nobody holds the token or may not do this."""

    def __init__(self, db: Database, who: Question, admit: Callable[[Sequence[Any]], User]) -> None:
        self._db = db
        self._who = who
        self._admit = admit
        self._user: User | None = None

    def user(self) -> User:
        if self._user is None:
            self._know(self._db.read(*self._who))
        assert self._user is not None
        return self._user

    def read(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        if self._user is not None:
            return self._db.read(statement, params)
        return self._db.read_after(self._who, self._know, statement, params)

    def alone(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        self.user()
        return self._db.alone(statement, params)

    @contextmanager
    def begin(self) -> Iterator[Tx]:
        self.user()
        with self._db.begin() as tx:
            yield tx

    def _know(self, rows: Sequence[Any]) -> None:
        self._user = self._admit(rows)
