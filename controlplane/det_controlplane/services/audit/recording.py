"""Write a row of the audit log in the transaction in which a request changes something."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.core import audit as rules
from det_controlplane.db import audit
from det_controlplane.db.engine import Tx, along
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.identity.principal import User

SIGN_IN = "sign-in"
MOST_AT_ONCE = 1000


@dataclass(slots=True)
class Recorder:
    """The row of one request. It is written once, also when the request takes several transactions or tries."""

    ctx: Context
    action: str
    object: str
    address: str
    user: User | None
    signed_in: int | None = None
    body: dict[str, Any] = field(default_factory=dict)  # what is told of it
    done: dict[str, Any] = field(default_factory=dict)  # what the use case tells
    _written: bool = False
    _done: bool = False

    def saw(self, body: Mapping[str, Any]) -> None:
        """Note the body of the request, as its handler reads it."""
        self.body = rules.details_of(body)

    def before_commit(self, tx: Tx) -> None:
        user_id = self.signed_in if self.user is None else self.user.id
        if self._done or user_id is None:
            return
        by = self.user
        self._written = audit.add(
            tx, self._details(),
            at=self.ctx.now(), user_id=user_id, username="" if by is None else by.username,
            via=SIGN_IN if by is None else by.via, session_id=None if by is None else by.session_id,
            task_id=None if by is None else by.task_id, address=self.address, action=self.action, object=self.object,
        )  # fmt: skip

    def _details(self) -> dict[str, Any]:
        found = {**self.body, **self.done}
        found["fields"] = [name for name in found.get("fields", ()) if name not in self.done]
        return {name: value for name, value in found.items() if value != []}

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


def concerns(*things: str) -> None:
    """Name what a request is about, which its path cannot: what it has made, or several things."""
    recorder = _current.get()
    if recorder is not None:
        recorder.object = rules.named(things)


def tells(**done: Any) -> None:
    """Add what a use case does, beside what the body says: whole lists, whatever else was sent along."""
    many = {name: value for name, value in done.items() if isinstance(value, list)}
    for name, items in many.items():
        if len(items) > MOST_AT_ONCE:
            raise Invalid(
                f"{name} has {len(items)} entries, and {MOST_AT_ONCE} are recorded at once: send the rest separately"
            )
    recorder = _current.get()
    if recorder is not None:
        recorder.done |= done


def signed_in(user_id: int) -> None:
    """Name who a request has turned out to come from."""
    recorder = _current.get()
    if recorder is not None and recorder.user is None:
        recorder.signed_in = user_id
