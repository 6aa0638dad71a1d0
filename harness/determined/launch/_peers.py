"""The containers of this launch, their slots, and the rank of this container."""

from typing import Dict, Iterator, List, NamedTuple

from determined._info import task_info


class Peers(NamedTuple):
    addresses: List[str]
    slots: List[int]
    rank: int

    @property
    def chief(self) -> str:
        return self.addresses[0]

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    @property
    def containers(self) -> int:
        return len(self.addresses)

    @property
    def total(self) -> int:
        return sum(self.slots)

    @property
    def local(self) -> int:
        return self.slots[self.rank]

    def local_ranks(self) -> Iterator[Dict[str, int]]:
        """Yield the ranks of each worker of this container."""
        first_rank = sum(self.slots[: self.rank])
        for local_rank in range(self.local):
            yield {"rank": first_rank + local_rank, "local_rank": local_rank}


def find_peers() -> Peers:
    """Return the containers from the rendezvous. Outside of a cluster, return this machine with one worker."""
    info = task_info()
    if info is None:
        return Peers(["127.0.0.1"], [1], 0)
    # A task without slots still runs one process.
    slots = [max(n, 1) for n in info.container_slot_counts]
    addresses = info.container_addrs if len(slots) > 1 else ["127.0.0.1"]
    return Peers(addresses, slots, info.container_rank)
