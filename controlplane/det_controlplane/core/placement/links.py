"""The links between the GPUs of a machine, and the free slots of a machine that are connected best.

Links have the names of `nvidia-smi topo -m`. A set of slots scores, in this order:

1. the class of the weakest link between any two of its slots,
2. the sum of the bandwidths of all its links,
3. the bandwidth of its links to free slots outside of the set. Less is better, because it keeps other good sets whole.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

# The path of the link, the best last: between sockets, across PCIe host bridges of one socket, through one host bridge,
# over several PCIe switches, over one PCIe switch.
PCIE_CLASSES = ("SYS", "NODE", "PHB", "PXB", "PIX")
NVLINK = len(PCIE_CLASSES)
# Approximate GB/s in one direction. Only their order and sums matter.
_PCIE_BANDWIDTH = (8, 12, 16, 20, 24)
_NVLINK_BANDWIDTH = 25  # of each of the bonded NVLinks; "NV4" has four

_MOST_VISITS = 50_000

Slots = tuple[int, ...]


class Link(NamedTuple):
    """A link between two slots of a machine. `kind` is NV1, NV2, …, PIX, PXB, PHB, NODE or SYS."""

    a: int
    b: int
    kind: str

    @property
    def link_class(self) -> int:
        """Return the rank of the kind. A kind that is not known ranks lowest."""
        if self._nvlinks:
            return NVLINK
        return PCIE_CLASSES.index(self.kind) if self.kind in PCIE_CLASSES else 0

    @property
    def bandwidth(self) -> int:
        return _NVLINK_BANDWIDTH * self._nvlinks or _PCIE_BANDWIDTH[self.link_class]

    @property
    def _nvlinks(self) -> int:
        count = self.kind[2:]
        return int(count) if self.kind.startswith("NV") and count.isdigit() else 0


class Score(NamedTuple):
    """The quality of the links within a set of slots. The greater score is better."""

    weakest_class: int
    bandwidth: int
    to_others: int = 0  # the negative bandwidth to free slots outside of the set


ALONE = Score(NVLINK, 0)  # the score of fewer than two slots, and of slots without known links


class Topology:
    """All links of a machine. Equal topologies are one object, see `topology_of`."""

    def __init__(self, links: Sequence[Link]) -> None:
        self.links = links
        self._values: dict[tuple[int, int], tuple[int, int]] = {}
        for link in links:
            value = link.link_class, link.bandwidth
            self._values[link.a, link.b] = self._values[link.b, link.a] = value

    def value(self, a: int, b: int) -> tuple[int, int]:
        """Return the class and the bandwidth of the link between two slots."""
        return self._values.get((a, b), (0, 0))

    @cached_property
    def slots(self) -> Slots:
        return tuple(sorted({slot for link in self.links for slot in (link.a, link.b)}))

    def groups(self, free: Slots) -> list[Slots]:
        """Group slots that have equal links to all other slots, so that each of a group is as good as another."""
        groups: list[list[int]] = []
        for slot in free:
            for group in groups:
                if self._are_alike(slot, group[0]):
                    group.append(slot)
                    break
            else:
                groups.append([slot])
        return [tuple(group) for group in groups]

    def _are_alike(self, a: int, b: int) -> bool:
        others = (slot for slot in self.slots if slot not in (a, b))
        return all(self.value(a, slot) == self.value(b, slot) for slot in others)


@lru_cache(maxsize=1024)
def topology_of(links: tuple[Link, ...]) -> Topology | None:
    """Return the topology of these links, or None if there are none."""
    return Topology(links) if links else None


def score(topology: Topology, slots: Slots, free: Slots) -> Score:
    """Return the score of a set of slots, of which `free` are all that it was chosen from."""
    pairs = [topology.value(a, b) for i, a in enumerate(slots) for b in slots[i + 1 :]]
    rest = [slot for slot in free if slot not in slots]
    return Score(
        min((link_class for link_class, _ in pairs), default=NVLINK),
        sum(bandwidth for _, bandwidth in pairs),
        -sum(topology.value(a, b)[1] for a in slots for b in rest),
    )


@lru_cache(maxsize=1 << 16)
def best_slots(topology: Topology, free: Slots, count: int) -> tuple[Score, Slots]:
    """Return the free slots of one machine that are connected best, and their score."""
    if count == len(free):
        return score(topology, free, free), free
    search = _Search(topology, free, count)
    search.visit(0, count, NVLINK, 0, 0)
    slots = tuple(sorted(search.slots))
    return score(topology, slots, free), slots


class _Search:
    """Tries how many slots to take of each group of equal slots. Branches that cannot win are left out.

    Real machines need at most a few thousand visits. The limit protects the scheduler from other matrices."""

    def __init__(self, topology: Topology, free: Slots, count: int) -> None:
        self._groups = topology.groups(free)
        firsts = [group[0] for group in self._groups]
        self._within = [topology.value(g[0], g[1]) if len(g) > 1 else (0, 0) for g in self._groups]
        self._between = [[topology.value(a, b) for b in firsts] for a in firsts]
        self._degrees = [sum(topology.value(g[0], slot)[1] for slot in free) for g in self._groups]
        self._left = [sum(map(len, self._groups[i:])) for i in range(len(self._groups) + 1)]
        self._most = max((topology.value(a, b)[1] for a in free for b in free if a != b), default=0)
        self._count = count
        self._taken = [0] * len(self._groups)
        self._best: tuple[int, int, int] = (-1, 0, 0)
        self._visits = 0
        self.slots: list[int] = []

    def visit(self, at: int, missing: int, weakest: int, inside: int, degree: int) -> None:
        """Decide about the groups from `at` on. The other arguments describe the slots that are taken so far."""
        if not missing:
            # The links to the rest are all links of the set, without those inside, which count twice.
            found = (weakest, inside, 2 * inside - degree)
            if found > self._best:
                self._best = found
                self.slots = [
                    s for g, n in zip(self._groups, self._taken, strict=True) for s in g[:n]
                ]
            return
        self._visits += 1
        if missing > self._left[at] or not self._can_win(missing, weakest, inside):
            return
        if self._visits > _MOST_VISITS and self.slots:
            return
        pairs = [(self._between[at][i], n) for i, n in enumerate(self._taken[:at]) if n]
        weakest_link = min((link[0] for link, _ in pairs), default=NVLINK)
        bandwidth = sum(link[1] * n for link, n in pairs)
        within_class, within_bandwidth = self._within[at]
        for n in range(min(missing, len(self._groups[at])), -1, -1):
            lowest = min(weakest, weakest_link) if n else weakest
            self._taken[at] = n
            self.visit(
                at + 1,
                missing - n,
                min(lowest, within_class) if n > 1 else lowest,
                inside + n * bandwidth + n * (n - 1) // 2 * within_bandwidth,
                degree + n * self._degrees[at],
            )
        self._taken[at] = 0

    def _can_win(self, missing: int, weakest: int, inside: int) -> bool:
        taken = self._count - missing
        pairs = missing * taken + missing * (missing - 1) // 2
        return (weakest, inside + pairs * self._most) >= self._best[:2]


def kind_of_class(link_class: int) -> str:
    """Return the name of a class of links."""
    return "NVLink" if link_class == NVLINK else PCIE_CLASSES[link_class]


def links_from(rows: Sequence[Sequence[object]]) -> tuple[Link, ...]:
    """Return the links of stored rows `[a, b, kind]`."""
    return tuple(Link(int(str(a)), int(str(b)), str(kind)) for a, b, kind in rows)
