"""Decide which replica a restarted trial resumes from, where copies go, and whether a state fits. No I/O."""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from determined.replicas._slots import STATE, Header, rank_item

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Inventory:
    """The items on one machine, and the start of the newest run that it took part in."""

    headers: Tuple[Header, ...]
    # {"run": its number, "replica": [run, sequence] of the replica that it started from, or None}
    origin: Optional[Mapping[str, Any]] = None

    def without(self, damaged: Sequence[Header]) -> "Inventory":
        return Inventory(tuple(h for h in self.headers if h not in damaged), self.origin)


@dataclass(frozen=True)
class Choice:
    """A replica to resume from. `holders` has the machine of each item, and `missing` the ranks whose state is lost."""

    headers: Dict[str, Header]
    holders: Dict[str, int]
    missing: Tuple[int, ...] = ()

    @property
    def header(self) -> Header:
        return next(iter(self.headers.values()))


@dataclass(frozen=True)
class Decision:
    choice: Optional[Choice]
    reason: str = ""  # why a newer replica than the checkpoint is not used


def choose(inventories: Mapping[int, Inventory], checkpoint_steps: int) -> Decision:
    """Choose the newest replica after the checkpoint that the machines hold completely.

    A replica with a `state` is complete without the states of some ranks. A replica of a run that was rolled back is
    not used, even if a machine that was away still has it."""
    reason = ""
    for replica in _usable_replicas(inventories):
        headers: Dict[str, Header] = {}
        holders: Dict[str, int] = {}
        for machine, inventory in sorted(inventories.items()):
            for header in inventory.headers:
                if header.replica == replica and header.item not in holders:
                    headers[header.item], holders[header.item] = header, machine
        first = next(iter(headers.values()))
        if first.steps <= checkpoint_steps:
            continue
        missing = _missing_ranks(first, holders)
        if STATE in holders or (not first.has_state and not missing):
            return Decision(Choice(headers, holders, missing))
        reason = reason or _incomplete(first, missing)
    return Decision(None, reason)


def _usable_replicas(inventories: Mapping[int, Inventory]) -> List[Tuple[int, int]]:
    """Return the replicas of the newest run and the replica that it started from, newest first."""
    origins = [i.origin for i in inventories.values() if i.origin is not None]
    newest = max(origins, key=lambda origin: int(origin["run"]), default=None)
    replicas = {h.replica for i in inventories.values() for h in i.headers}
    if newest is not None:
        start = tuple(newest["replica"] or ())
        replicas = {r for r in replicas if r[0] >= int(newest["run"]) or r == start}
    return sorted(replicas, reverse=True)


def _missing_ranks(header: Header, holders: Mapping[str, int]) -> Tuple[int, ...]:
    if not header.has_rank_states:
        return ()
    return tuple(rank for rank in range(header.ranks) if rank_item(rank) not in holders)


def _incomplete(header: Header, missing: Sequence[int]) -> str:
    if header.has_state:
        return f"no remaining machine has the state of step {header.steps}"
    ranks = ", ".join(map(str, missing))
    return f"no remaining machine has the state of rank {ranks} at step {header.steps}"


def next_machine(machine: int, machines: int) -> Optional[int]:
    """Return the machine that stores copies for `machine`, or None if there is no other one."""
    return (machine + 1) % machines if machines > 1 else None


@dataclass(frozen=True)
class Turn:
    """The message of a rank before a replica is written."""

    machine: int
    state_bytes: int = 0  # on one rank of each machine
    rank_bytes: int = 0
    room: Optional[int] = (
        None  # bytes that replicas may use on this machine, from one rank of each machine
    )
    problem: str = ""  # of the replica before, or of this one
    reported: Dict[str, int] = field(default_factory=dict)


def needed_bytes(turns: Sequence[Turn], machine: int, machines: int) -> int:
    """Return the bytes for both replicas of a machine: its own items, and copies for the machine before it."""
    own = sum(t.state_bytes + t.rank_bytes for t in turns if t.machine == machine)
    copies = sum(t.rank_bytes for t in turns if next_machine(t.machine, machines) == machine)
    return 2 * (own + copies)


def problem_of(turns: Sequence[Turn], machines: int) -> str:
    """Return why replication cannot continue, or ''. All ranks decide alike."""
    for rank, turn in enumerate(turns):
        if turn.problem:
            return f"rank {rank}: {turn.problem}"
    for turn in turns:
        if turn.room is None:
            continue
        needed = needed_bytes(turns, turn.machine, machines)
        if needed > turn.room:
            return (
                f"two replicas need {_mib(needed)} MiB of memory on machine {turn.machine} of the trial, and "
                f"{_mib(turn.room)} MiB may be used: set resources.replica_memory, or use larger machines"
            )
    return ""


def _mib(size: int) -> int:
    return -(-size // _MIB)
