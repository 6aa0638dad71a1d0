"""Write replicas while a trial trains, and find the newest one when it starts again."""

import contextlib
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Tuple

from determined.checkpointing import _memory
from determined.core._distributed import DistributedContext, peer_key
from determined.replicas import _states
from determined.replicas._choice import (
    Choice,
    Inventory,
    Turn,
    choose,
    needed_bytes,
    next_machine,
    problem_of,
)
from determined.replicas._exchange import Address, Clients, ItemServer, NoRoom
from determined.replicas._slots import DATA_AT, STATE, Folder, Header, SlotFile, rank_item

logger = logging.getLogger("determined.core")

_LAST_REPLICA_S = 10.0  # the end of a process waits so long for its last replica


@dataclass(frozen=True)
class Settings:
    """The place and the limit of replicas on this machine, and the start of this run."""

    directory: str  # empty: the agent gave none
    limit_bytes: int
    run: int
    checkpoint_steps: int = 0  # of the checkpoint that this run starts from
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Reports:
    """The reports of the chief. They must be stored before a replica that is newer than they are is used."""

    reported: Callable[[], Dict[str, int]] = dict  # the last step of each metric group
    flush: Callable[[], None] = lambda: None
    # Asks the cluster to start this run from a step. Returns why it refuses, or ''.
    start_from: Callable[[int, Dict[str, int]], str] = lambda steps, reported: ""


class Replica:
    """A replica to resume from. It is read when its properties are first used."""

    def __init__(self, choice: Choice, read: Callable[[str], Any]) -> None:
        self._choice = choice
        self._read = read
        self._cache: Dict[str, Any] = {}

    @property
    def steps_completed(self) -> int:
        return self._choice.header.steps

    @property
    def ranks(self) -> int:
        """Return the number of ranks that stored this replica."""
        return self._choice.header.ranks

    @property
    def state(self) -> Any:
        """Return the state that was equal on all ranks, or None if none was stored."""
        return self._item(STATE) if self._choice.header.has_state else None

    @property
    def rank_states(self) -> List[Any]:
        """Return the states of the ranks that stored this replica. A lost state is None."""
        return [self.rank_state(rank) for rank in range(self.ranks)]

    def rank_state(self, rank: int) -> Any:
        item = rank_item(rank)
        return self._item(item) if item in self._choice.holders else None

    def _item(self, item: str) -> Any:
        if item not in self._cache:
            self._cache[item] = self._read(item)
        return self._cache[item]


class Replicator:
    """The replicas of one rank. Every rank calls the same methods in the same order."""

    def __init__(
        self, distributed: DistributedContext, settings: Settings, reports: Reports
    ) -> None:
        self._distributed = distributed
        self._settings = settings
        self._reports = reports
        self._folder = Folder(settings.directory)
        self._writes_state = distributed.local_rank == 0
        self._worker = ThreadPoolExecutor(1, "determined-replica")
        self._unfinished: Optional[Future[None]] = None
        self._server: Optional[ItemServer] = None
        self._clients: Optional[Clients] = None
        self._machines: List[int] = []  # of each rank
        self._next: Optional[int] = None
        self._restored: Optional[Tuple[Optional[Replica]]] = None
        self._sequence = 0
        self._written = 0
        self._stopped = False

    def restore(self) -> Optional[Replica]:
        """Return the newest replica that is newer than the checkpoint of this run, or None."""
        if self._restored is None:
            self._connect()
            choice = self._find()
            self._restored = (None if choice is None else Replica(choice, self._reader(choice)),)
            self._begin(choice)
        return self._restored[0]

    def replicate(self, state: Any, steps: int, rank_state: Any = None) -> None:
        """Store the states in memory. On return they may change; a thread completes the replica."""
        if self._stopped:
            return
        if self._restored is None:
            # This run did not resume from a replica, so replicas of earlier runs must not be used later.
            self._restored = (None,)
            self._connect()
            self._begin(None)
        problem = self._await_last()
        common, own = self._encode(state, rank_state)
        turns = self._take_turns(common, own, problem)
        if turns is None:
            return
        self._sequence += 1
        header = self._header(steps, state is not None, rank_state is not None, turns)
        try:
            files = self._fill(header, common, own)
        except OSError as e:
            failed: Future[None] = Future()
            failed.set_exception(e)
            self._unfinished = failed
            return
        self._unfinished = self._worker.submit(self._complete, files)

    def wait(self) -> None:
        """Wait until the newest replica is stored on this machine and the next one. Raise if that failed."""
        if self._unfinished is not None:
            self._unfinished.result()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            if self._unfinished is not None:
                self._unfinished.result(timeout=_LAST_REPLICA_S)
        if self._clients is not None:
            self._clients.close()
        if self._server is not None:
            self._server.close()
        self._worker.shutdown(wait=True)
        self._folder.close()

    def _connect(self) -> None:
        """Exchange the machines of the ranks, and the addresses of the servers on all machines."""
        distributed = self._distributed
        several = distributed.cross_size > 1
        if several and self._writes_state and self._settings.directory:
            self._server = ItemServer(self._folder, peer_key(), self._settings.host)
        address = None if self._server is None else self._server.address
        places = distributed.allgather((distributed.cross_rank, address))
        self._machines = [machine for machine, _ in places]
        addresses: Dict[int, Address] = {machine: a for machine, a in places if a is not None}
        self._clients = Clients(addresses, peer_key())
        self._next = next_machine(distributed.cross_rank, distributed.cross_size)

    def _find(self) -> Optional[Choice]:
        """Choose a replica with all ranks. Read its items once, because their memory may be damaged."""
        distributed, machine = self._distributed, self._distributed.cross_rank
        inventory = None
        if self._writes_state and self._settings.directory:
            inventory = Inventory(tuple(self._folder.headers()), self._folder.read_origin())
        while True:
            pairs = distributed.allgather((machine, inventory))
            inventories = {m: i for m, i in pairs if i is not None}
            decision = choose(inventories, self._settings.checkpoint_steps)
            if decision.choice is None:
                self._explain(decision.reason)
                return None
            damaged: List[Header] = []
            if inventory is not None:
                chosen = decision.choice.header.replica
                own = [h for h in inventory.headers if h.replica == chosen]
                damaged = [h for h in own if self._folder.read(h) is None]
                inventory = inventory.without(damaged)
            if not any(distributed.allgather(bool(damaged))):
                return self._confirmed(decision.choice)

    def _confirmed(self, choice: Choice) -> Optional[Choice]:
        refusal: Optional[str] = None
        if self._distributed.rank == 0:
            header = choice.header
            refusal = self._reports.start_from(header.steps, header.reported)
        refusal = self._distributed.broadcast(refusal)
        if refusal:
            self._explain(refusal)
            return None
        if self._distributed.rank == 0:
            logger.info(
                "continuing from the replica of step %d in memory, not from the checkpoint of step %d",
                choice.header.steps,
                self._settings.checkpoint_steps,
            )
            if choice.missing:
                ranks = ", ".join(map(str, choice.missing))
                logger.warning("the own states of the earlier ranks %s are lost", ranks)
        return choice

    def _explain(self, reason: str) -> None:
        if reason and self._distributed.rank == 0:
            steps = self._settings.checkpoint_steps
            start = f"from the checkpoint of step {steps}" if steps else "without a checkpoint"
            logger.warning("continuing %s, because %s", start, reason)

    def _begin(self, choice: Optional[Choice]) -> None:
        """Note the start of this run. Without a replica, delete the replicas of earlier runs."""
        self._sequence = 0 if choice is None else choice.header.sequence
        if not (self._writes_state and self._settings.directory):
            return
        if choice is None:
            self._folder.remove_items()
        replica = None if choice is None else list(choice.header.replica)
        self._folder.write_origin({"run": self._settings.run, "replica": replica})

    def _reader(self, choice: Choice) -> Callable[[str], Any]:
        def read(item: str) -> Any:
            header, content = self._read_here(item, choice.header.replica)
            if content is None:
                header = choice.headers[item]
                assert self._clients is not None
                content = self._clients.to(choice.holders[item]).fetch(header)
            if header is None or content is None:
                raise RuntimeError(
                    f"the replica of step {choice.header.steps} was replaced: read it before replicate() is called"
                )
            return _states.decode(content, header.data)

        return read

    def _read_here(
        self, item: str, replica: Tuple[int, int]
    ) -> Tuple[Optional[Header], Optional[bytearray]]:
        for header in self._folder.headers():
            if header.item == item and header.replica == replica:
                return header, self._folder.read(header)
        return None, None

    def _await_last(self) -> str:
        """Wait until the last replica is complete. Return why this machine cannot store replicas, or ''."""
        unfinished, self._unfinished = self._unfinished, None
        if not self._settings.directory:
            return "its agent gave no directory in memory; update the agent"
        try:
            if unfinished is not None:
                unfinished.result()
        except ConnectionError:
            raise  # another machine is lost
        except OSError as e:
            return f"no room for a replica in memory ({e})"
        except NoRoom as e:
            return str(e)
        return ""

    def _encode(
        self, state: Any, rank_state: Any
    ) -> Tuple[Optional[_states.Encoded], Optional[_states.Encoded]]:
        common = None
        if state is not None and self._writes_state:
            common = _states.encode(state() if callable(state) else state)
        own = None if rank_state is None else _states.encode(rank_state)
        return common, own

    def _take_turns(
        self, common: Optional[_states.Encoded], own: Optional[_states.Encoded], problem: str
    ) -> Optional[List[Turn]]:
        """Exchange sizes. After this barrier the last replica is complete everywhere.

        Stop and return None if this one does not fit."""
        machine = self._distributed.cross_rank
        turn = Turn(
            machine,
            0 if common is None else common.stored_bytes,
            0 if own is None else own.stored_bytes,
            self._room() if self._writes_state else None,
            problem,
            self._reports.reported() if self._distributed.rank == 0 else {},
        )
        turns: List[Turn] = self._distributed.allgather(turn)
        machines = self._distributed.cross_size
        problem = problem_of(turns, machines)
        if problem:
            self._stop(problem)
            return None
        if self._writes_state:
            self._make_room(needed_bytes(turns, machine, machines))
        return turns

    def _room(self) -> int:
        """Return the bytes that replicas may have here. Memory that they have already counts as free."""
        available = _memory.available_bytes()
        if available is None:
            return self._settings.limit_bytes
        usable = int(available * _memory.USABLE_SHARE) + self._folder.used_bytes()
        return min(self._settings.limit_bytes, usable)

    def _make_room(self, needed: int) -> None:
        """Delete items that this run does not write, as soon as its first replica is complete or if they take room."""
        mine = self._items_here()
        stale = self._folder.used_bytes(without=mine)
        if stale and (self._written >= 1 or needed + stale > self._settings.limit_bytes):
            self._folder.remove_items(without=mine)

    def _items_here(self) -> Tuple[str, ...]:
        machine, machines = self._distributed.cross_rank, self._distributed.cross_size
        ranks = [
            rank
            for rank, place in enumerate(self._machines)
            if place == machine or next_machine(place, machines) == machine
        ]
        return (STATE, *map(rank_item, ranks))

    def _stop(self, problem: str) -> None:
        self._stopped = True
        if self._writes_state and self._settings.directory:
            self._folder.remove_items()
        if self._distributed.rank == 0:
            logger.warning("the trial is no longer replicated: %s", problem)

    def _header(
        self, steps: int, has_state: bool, has_rank_states: bool, turns: List[Turn]
    ) -> Header:
        return Header(
            item="",
            run=self._settings.run,
            sequence=self._sequence,
            steps=steps,
            ranks=self._distributed.size,
            has_state=has_state,
            has_rank_states=has_rank_states,
            reported=turns[0].reported,
        )

    def _fill(
        self, header: Header, common: Optional[_states.Encoded], own: Optional[_states.Encoded]
    ) -> "List[Tuple[SlotFile, Header]]":
        files = []
        for item, encoded in ((STATE, common), (rank_item(self._distributed.rank), own)):
            if encoded is None:
                continue
            slot = self._folder.slot(item, self._sequence)
            size = encoded.size + len(encoded.skeleton)
            _states.fill(slot.reserve(size), encoded)
            described = replace(
                header, item=item, data=encoded.size, skeleton=len(encoded.skeleton)
            )
            files.append((slot, described))
        return files

    def _complete(self, files: "List[Tuple[SlotFile, Header]]") -> None:
        """Make the items valid, and send this rank's state to the next machine."""
        for slot, header in files:
            described = slot.commit(header)
            if header.item != STATE and self._next is not None:
                assert self._clients is not None
                assert slot.memory is not None
                with memoryview(slot.memory) as memory:
                    content = memory[DATA_AT : DATA_AT + header.data + header.skeleton]
                    with content:
                        self._clients.to(self._next).store(described, content)
        if self._distributed.rank == 0:
            self._reports.flush()
        self._written += 1
