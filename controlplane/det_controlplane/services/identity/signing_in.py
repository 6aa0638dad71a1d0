"""A request that only reads learns who asks within the round trip of its first read."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from det_controlplane.db.engine import Database, Params, Tx
from det_controlplane.db.prepared import Question
from det_controlplane.db.sql import Statement
from det_controlplane.services.identity.principal import User


class SeenTokens:
    """Hashes of tokens that this process has seen to be good: no proof, but no strangers' either."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._hashes: set[bytes] = set()

    def __contains__(self, hash: bytes) -> bool:
        return hash in self._hashes

    def add(self, hash: bytes) -> None:
        if len(self._hashes) >= self._most:
            self._hashes.clear()
        self._hashes.add(hash)

    def discard(self, hash: bytes) -> None:
        self._hashes.discard(hash)


class SigningIn(Database):
    """The database of one such request. Nothing is told of it before its user is known and admitted.

    `admit` makes the user of the answer to `who`, and raises if nobody holds the token or may not do this. Without
    `together` it is asked first, by itself: strangers must not make the database work."""

    def __init__(
        self,
        db: Database,
        who: Question,
        admit: Callable[[Sequence[Any]], User],
        *,
        together: bool,
    ) -> None:
        self._db = db
        self._who = who
        self._admit = admit
        self._together = together
        self._user: User | None = None

    def user(self) -> User:
        if self._user is None:
            self._know(self._db.read(*self._who))
        assert self._user is not None
        return self._user

    def read(self, statement: Statement, params: Params | None = None) -> Sequence[Any]:
        if self._user is None and self._together and statement.only_reads:
            return self._db.read_after(self._who, self._know, statement, params)
        self.user()
        return self._db.read(statement, params)

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
