"""Write a row of the audit log in the transaction in which a request changes something."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from det_controlplane.core import audit as rules
from det_controlplane.db.cluster import audit
from det_controlplane.db.engine.database import Tx, transaction_hook
from det_controlplane.db.people.sessions import NOWHERE, Origin
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.principal import User

SIGN_IN = "sign-in"
MOST_AT_ONCE = 1000
_LONGEST_PROGRAM = 300


@dataclass(slots=True)
class Recorder:
    """The row of one request. It is written once, also when the request takes several transactions or tries."""

    ctx: Context
    action: str
    object: str
    address: str
    user: User | None
    program: str = ""  # the user agent of the request
    signed_in: int | None = None
    body: dict[str, Any] = field(default_factory=dict)  # details for the audit entry
    done: dict[str, Any] = field(default_factory=dict)  # details from the use case
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
    """Record the changes that this thread makes within the block."""
    here, beside = _current.set(recorder), transaction_hook.set(recorder)
    try:
        yield
    finally:
        transaction_hook.reset(beside)
        _current.reset(here)


def concerns(*things: str) -> None:
    """Add objects to the audit entry that the path does not name, such as created objects."""
    recorder = _current.get()
    if recorder is not None:
        recorder.object = rules.named(things)


def tells(**done: Any) -> None:
    """Add details of a use case to the audit entry, beside the values of the body."""
    many = {name: value for name, value in done.items() if isinstance(value, list)}
    for name, items in many.items():
        if len(items) > MOST_AT_ONCE:
            raise Invalid(
                f"{name} has {len(items)} entries, and {MOST_AT_ONCE} are recorded at once: send the rest separately"
            )
    recorder = _current.get()
    if recorder is not None:
        recorder.done |= done


def opens(ctx: Context, again_after: timedelta = timedelta(0)) -> None:
    """Write an audit entry for a request that only opens an object of another user.

    The same sign-in writes the same entry again only after `again_after`."""
    recorder = _current.get()
    if recorder is None or recorder.user is None:
        return
    since, by = ctx.now() - again_after, recorder.user.session_id
    with ctx.db.begin() as tx:
        if not again_after or not audit.has(tx, recorder.action, recorder.object, by, since):
            audit.count_as_writing(tx)


def origin() -> Origin:
    """Return from where the request comes."""
    recorder = _current.get()
    if recorder is None:
        return NOWHERE
    return Origin(recorder.address, recorder.program[:_LONGEST_PROGRAM])


def signed_in(user_id: int) -> None:
    """Note the user of a request that signs in."""
    recorder = _current.get()
    if recorder is not None and recorder.user is None:
        recorder.signed_in = user_id
