"""The containers of this launch, their slots, and the rank of this one."""

from typing import Dict, Iterator, List, NamedTuple

from determined._info import get_cluster_info


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
        """Return the ranks of each worker of this container."""
        before = sum(self.slots[: self.rank])
        for local_rank in range(self.local):
            yield {"rank": before + local_rank, "local_rank": local_rank}


def find_peers() -> Peers:
    """Find the containers by the rendezvous; off-cluster there is this machine alone, with one worker."""
    info = get_cluster_info()
    if info is None:
        return Peers(["127.0.0.1"], [1], 0)
    # A task without slots still has a process to run.
    slots = [max(n, 1) for n in info.container_slot_counts]
    addresses = info.container_addrs if len(slots) > 1 else ["127.0.0.1"]
    return Peers(addresses, slots, info.container_rank)
