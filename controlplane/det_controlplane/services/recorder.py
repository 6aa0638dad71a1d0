"""Record the changes of a request in the audit log, in the transaction that makes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core import audit as rules
from det_controlplane.db.cluster import audit
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.people.sessions import NOWHERE, Origin
from det_controlplane.services.errors import Invalid
from det_controlplane.services.principal import User

SIGN_IN = "sign-in"
MOST_AT_ONCE = 1000
_LONGEST_PROGRAM = 300


class NoRecorder:
    """The recorder of a context without an audit log. It only checks limits."""

    def add_objects(self, *names: str) -> None:
        """Add objects to the audit entry that the path does not name, such as created objects."""

    def add_details(self, **details: Any) -> None:
        """Add details of a use case to the audit entry, beside the values of the body."""
        for name, items in details.items():
            if isinstance(items, list) and len(items) > MOST_AT_ONCE:
                raise Invalid(
                    f"{name} has {len(items)} entries, and {MOST_AT_ONCE} are recorded at once: send the rest separately"
                )

    def record_opening(self, db: Database, again_after: timedelta = timedelta(0)) -> None:
        """Write an audit entry for a request that only opens an object of another user.

        The same sign-in writes the same entry again only after `again_after`."""

    def origin(self) -> Origin:
        """Return from where the request comes."""
        return NOWHERE

    def set_signed_in(self, user_id: int) -> None:
        """Note the user of a request that signs in."""


@dataclass(slots=True)
class Recorder(NoRecorder):
    """The audit entry of one request. It is written once, also when the request takes several transactions or tries."""

    now: Callable[[], datetime]
    action: str
    object: str
    address: str
    user: User | None
    program: str = ""  # the user agent of the request
    signed_in: int | None = None
    body: dict[str, Any] = field(default_factory=dict)  # details for the audit entry
    details: dict[str, Any] = field(default_factory=dict)  # from the use case
    _written: bool = False
    _is_done: bool = False

    def saw(self, body: Mapping[str, Any]) -> None:
        """Note the body of the request, as its handler reads it."""
        self.body = rules.details_of(body)

    def add_objects(self, *names: str) -> None:
        self.object = rules.named(names)

    def add_details(self, **details: Any) -> None:
        NoRecorder.add_details(self, **details)
        self.details |= details

    def record_opening(self, db: Database, again_after: timedelta = timedelta(0)) -> None:
        if self.user is None:
            return
        since, session_id = self.now() - again_after, self.user.session_id
        with db.begin() as tx:
            if not again_after or not audit.has(tx, self.action, self.object, session_id, since):
                audit.count_as_writing(tx)

    def origin(self) -> Origin:
        return Origin(self.address, self.program[:_LONGEST_PROGRAM])

    def set_signed_in(self, user_id: int) -> None:
        if self.user is None:
            self.signed_in = user_id

    def before_commit(self, tx: Tx) -> None:
        user_id = self.signed_in if self.user is None else self.user.id
        if self._is_done or user_id is None:
            return
        by = self.user
        self._written = audit.add(
            tx, self._shown_details(),
            at=self.now(), user_id=user_id, username="" if by is None else by.username,
            via=SIGN_IN if by is None else by.via, session_id=None if by is None else by.session_id,
            task_id=None if by is None else by.task_id, address=self.address, action=self.action, object=self.object,
        )  # fmt: skip

    def _shown_details(self) -> dict[str, Any]:
        details = {**self.body, **self.details}
        details["fields"] = [name for name in details.get("fields", ()) if name not in self.details]
        return {name: value for name, value in details.items() if value != []}

    def committed(self) -> None:
        self._is_done = self._is_done or self._written
