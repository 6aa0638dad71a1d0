"""Write a row of the audit log in the transaction in which a request changes something."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from det_controlplane.core import audit as rules
from det_controlplane.db import audit
from det_controlplane.db.engine import Tx, along
from det_controlplane.services.context import Context
from det_controlplane.services.identity.principal import User

SIGN_IN = "sign-in"


@dataclass(slots=True)
class Recorder:
    """The row of one request. It is written once, also when the request takes several transactions or tries."""

    ctx: Context
    action: str
    object: str
    address: str
    details: Callable[[], Mapping[str, Any]]
    user: User | None
    signed_in: int | None = None
    _written: bool = False
    _done: bool = False

    def before_commit(self, tx: Tx) -> None:
        user_id = self.signed_in if self.user is None else self.user.id
        if self._done or user_id is None:
            return
        by = self.user
        self._written = audit.add(
            tx, rules.details_of(self.details()),
            at=self.ctx.now(), user_id=user_id, username="" if by is None else by.username,
            via=SIGN_IN if by is None else by.via, session_id=None if by is None else by.session_id,
            task_id=None if by is None else by.task_id, address=self.address, action=self.action, object=self.object,
        )  # fmt: skip

    def committed(self) -> None:
        self._done = self._done or self._written


_current: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Have what this thread changes meanwhile recorded."""
    here, beside = _current.set(recorder), along.set(recorder)
    try:
        yield
    finally:
        along.reset(beside)
        _current.reset(here)


def concerns(what: str) -> None:
    """Name what a request has made, which its path cannot."""
    recorder = _current.get()
    if recorder is not None:
        recorder.object = what


def signed_in(user_id: int) -> None:
    """Name who a request has turned out to come from."""
    recorder = _current.get()
    if recorder is not None and recorder.user is None:
        recorder.signed_in = user_id
