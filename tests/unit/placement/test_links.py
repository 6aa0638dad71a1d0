"""The choice of the free slots of a machine with the best links."""

import random
import time
from itertools import combinations

import pytest
from det_controlplane.core.placement.links import (
    NVLINK,
    Link,
    Score,
    Slots,
    Topology,
    best_slots,
    score,
    topology_of,
)

from tests.support.topologies import dgx1_v100, nvlink_pairs, nvswitch, pcie_tree

_KINDS = ("SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV2", "NV4")
_MACHINES = (dgx1_v100(), nvswitch(), pcie_tree(), nvlink_pairs())


def topology(links: tuple[Link, ...]) -> Topology:
    found = topology_of(links)
    assert found is not None
    return found


def best_by_brute_force(links: Topology, free: Slots, count: int) -> Score:
    return max(score(links, slots, free) for slots in combinations(free, count))


def random_state(rng: random.Random) -> tuple[Topology, Slots, int]:
    if rng.random() < 0.5:
        links = topology(rng.choice(_MACHINES))
    else:
        gpus = rng.randint(2, 8)
        links = Topology([Link(a, b, rng.choice(_KINDS)) for a, b in combinations(range(gpus), 2)])
    free = tuple(sorted(rng.sample(links.slots, rng.randint(1, len(links.slots)))))
    return links, free, rng.randint(1, len(free))


def test_no_free_set_of_the_same_size_is_better_connected_in_10000_random_states() -> None:
    rng = random.Random(7)
    for _ in range(10_000):
        links, free, count = random_state(rng)
        found, slots = best_slots(links, free, count)
        assert len(set(slots)) == count
        assert set(slots) <= set(free)
        assert found == score(links, slots, free) == best_by_brute_force(links, free, count)


@pytest.mark.parametrize("links", [*_MACHINES, nvswitch(16), pcie_tree(16), nvlink_pairs(16)])
def test_a_placement_takes_at_most_a_millisecond(links: tuple[Link, ...]) -> None:
    rng, machine = random.Random(3), topology(links)
    states: set[tuple[Slots, int]] = set()
    while len(states) < 150:
        free = tuple(sorted(rng.sample(machine.slots, rng.randint(2, len(machine.slots)))))
        states.add((free, rng.randint(1, len(free))))
    best_slots.cache_clear()
    begin = time.process_time()
    for free, count in states:
        best_slots(machine, free, count)
    assert (time.process_time() - begin) / len(states) <= 0.001


def test_a_pair_shares_most_nvlinks_or_a_pcie_switch() -> None:
    assert best_slots(topology(dgx1_v100()), (0, 1, 2), 2)[1] == (1, 2)
    assert best_slots(topology(pcie_tree()), (1, 2, 3, 6), 2)[1] == (2, 3)


def test_the_weakest_link_counts_before_bandwidth() -> None:
    machine = topology((Link(0, 1, "NV18"), Link(0, 2, "SYS"), Link(1, 2, "SYS"), Link(0, 3, "PIX"),
                        Link(1, 3, "SYS"), Link(2, 3, "PIX")))  # fmt: skip
    assert best_slots(machine, (0, 1, 2, 3), 2) == (Score(NVLINK, 450, -48), (0, 1))
    assert best_slots(machine, (0, 2, 3), 2)[0].weakest_class == 4


def test_a_single_slot_leaves_pairs_whole() -> None:
    assert best_slots(topology(pcie_tree()), (0, 1, 2), 1)[1] == (2,)


def test_an_unknown_kind_of_link_ranks_lowest() -> None:
    machine = topology((Link(0, 1, "QPI"), Link(0, 2, "NODE"), Link(1, 2, "SYS")))
    assert best_slots(machine, (0, 1, 2), 2)[1] == (0, 2)


def test_unknown_links_are_no_topology() -> None:
    assert topology_of(()) is None
