"""Answer the containers of a running task: rendezvous, preemption, readiness, gathering."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from det_controlplane.core.lifecycle.allocation import AllocationState, ContainerState
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.logs import logs
from det_controlplane.db.logs.logs import NamedLine
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.scheduling.allocations import AllocationRow
from det_controlplane.db.tasks import containers, tasks
from det_controlplane.db.tasks.containers import ContainerRow
from det_controlplane.services.context import Context
from det_controlplane.services.errors import (
    Forbidden,
    Invalid,
    Missing,
    Oversized,
    Unready,
    WrongState,
)
from det_controlplane.services.principal import User
from det_controlplane.services.use_case import change

_GATHERED = 16 << 20  # bytes of a round
_LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\$-]{0,255}")


def find(ctx: Context, user: User, allocation_id: str) -> AllocationRow:
    """Find the allocation, for its own tasks and for people."""
    if user.allocation_id is not None and user.allocation_id != allocation_id:
        raise Forbidden(
            f"the token of allocation {user.allocation_id} is not good for {allocation_id}"
        )
    with ctx.db.autocommit() as tx:
        row = allocations.by_id(tx, allocation_id)
    if row is None:
        raise Missing(f"allocation '{allocation_id}' not found")
    return row


def rendezvous(ctx: Context, user: User, allocation_id: str, resources_id: str) -> dict[str, Any]:
    """Return addresses of all containers by rank, once all of them run and have asked."""
    find(ctx, user, allocation_id)
    with change(ctx) as changed:
        tx, now = changed.tx, changed.now
        allocation = allocations.lock(tx, allocation_id)
        assert allocation is not None
        own = _arrive(tx, allocation, resources_id, now)
        members = containers.of_allocation(tx, allocation)
        missing = [
            c for c in members if c.rendezvous_at is None or c.state is ContainerState.ASSIGNED
        ]
        if not missing:
            if allocations.set_ready(tx, allocation_id):
                line = NamedLine(allocation.task_id, " have started", before="Resources for ")
                logs.add_named_lines(tx, [line], now)
            changed.allocation_changed(allocation_id)
    if missing:
        raise Unready(f"{len(missing)} of {len(members)} containers have not arrived yet")
    return {
        "addresses": [c.address or "127.0.0.1" for c in members],
        "rank": own.rank,
        "slots": [len(c.slot_ids) for c in members],
    }


def _arrive(tx: Tx, allocation: AllocationRow, resources_id: str, now: datetime) -> ContainerRow:
    if allocation.state is AllocationState.TERMINATED:
        raise WrongState(f"allocation '{allocation.id}' has ended")
    for container in containers.of_allocation(tx, allocation):
        if str(container.id) == resources_id:
            containers.arrive(tx, container.id, now)
            return container
    raise Missing(f"resources '{resources_id}' are not part of allocation '{allocation.id}'")


def preempted(ctx: Context, user: User, allocation_id: str) -> bool:
    allocation = find(ctx, user, allocation_id)
    return allocation.preempt_at is not None


def acknowledge_preemption(ctx: Context, user: User, allocation_id: str) -> None:
    """Record that the program saw the signal. Its exit then counts as a requested stop, with any exit code.

    Without a signal, this has no effect and the exit code counts."""
    allocation = find(ctx, user, allocation_id)
    if allocation.preempt_at is not None:
        _note(ctx, allocations.acknowledge_preemption, allocation_id)


def ready(ctx: Context, user: User, allocation_id: str, login: str = "") -> None:
    """Note that the program serves: from now on it may be asked to leave, and may be idle.

    `login` is the account that a shell lets in. Names that `ssh` could take for options are left out."""
    allocation = find(ctx, user, allocation_id)
    with change(ctx) as changed:
        tx, now = changed.tx, changed.now
        if allocations.set_ready(tx, allocation_id) and allocation.trial_id is None:
            tasks.resume(tx, allocation_id)
            tasks.note_activity(tx, allocation.task_id, now)
            if _LOGIN.fullmatch(login):
                tasks.set_login(tx, allocation.task_id, login)
            line = NamedLine(allocation.task_id, " is available", before="Service of ")
            logs.add_named_lines(tx, [line], now)
            changed.wake(f"logs:{allocation.task_id}")
            changed.wake("schedule")
        changed.allocation_changed(allocation_id)


def waiting(ctx: Context, user: User, allocation_id: str) -> None:
    find(ctx, user, allocation_id)
    _note(ctx, allocations.set_waiting, allocation_id)


def _note(ctx: Context, note: Callable[[Tx, str], bool], allocation_id: str) -> None:
    with change(ctx) as changed:
        note(changed.tx, allocation_id)
        changed.allocation_changed(allocation_id)


def mark_daemon(ctx: Context, user: User, allocation_id: str, resources_id: str) -> None:
    """Mark a container that does not decide when the allocation ends."""
    find(ctx, user, allocation_id)
    with ctx.db.begin() as tx:
        if not containers.mark_daemon(tx, _uuid(resources_id), allocation_id):
            raise Missing(
                f"resources '{resources_id}' are not part of allocation '{allocation_id}'"
            )


def all_gather(
    ctx: Context, user: User, allocation_id: str, request_uuid: str, peers: int, data: Any
) -> list[str]:
    """Return the data of a round as JSON, once all `peers` have sent theirs; a request sent twice gets the same answer.

    Nothing is made of it here, and there is a bound to all of it, because it is answered to each of them."""
    find(ctx, user, allocation_id)
    if peers < 1:
        raise Invalid(f"numPeers must be at least 1, not {peers}")
    payload, share = as_json(data), _GATHERED // peers
    if len(payload) > share:
        raise Oversized(
            f"{len(payload)} bytes of data: each of {peers} peers may send {share}, as all of them get all of it;"
            " exchange larger things by files, or among the peers themselves"
        )
    with change(ctx) as changed:
        gathered = containers.add_gathered(changed.tx, allocation_id, request_uuid, peers, payload)
        if len(gathered) >= peers:
            allocations.set_ready(changed.tx, allocation_id)
        changed.allocation_changed(allocation_id)
    if len(gathered) < peers:
        raise Unready(f"{len(gathered)} of {peers} peers have sent their data")
    return gathered


def _uuid(value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as e:
        raise Invalid(f"{value!r} is not a container id") from e
