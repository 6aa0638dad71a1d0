"""Requests and the links between the slots that they get."""

from typing import Any

from det_controlplane.core.placement.links import Link, topology_of
from det_controlplane.core.placement.model import Agent
from det_controlplane.core.schedule import PoolSnapshot, WaitCode, decide

from tests.support.schedules import NOW, agent, pool, request, starts
from tests.support.topologies import nvlink_pairs, nvswitch, pcie_tree


def linked(id: str, links: tuple[Link, ...], *free: int, **more: Any) -> Agent:
    topology = topology_of(links)
    assert topology is not None
    slots = len(topology.slots)
    return agent(id, slots, slots - len(free), free_slots=free, topology=topology, **more)


def slots_of(snapshot: PoolSnapshot) -> dict[str, tuple[int, ...]]:
    plan = decide(snapshot, NOW)
    return {start.allocation_id: start.slot_ids[0] for start in plan.start}


def test_a_request_gets_the_slots_with_the_best_links() -> None:
    assert slots_of(pool([linked("a", pcie_tree(), 0, 3, 4, 5)], pending=[request("r", 2)])) == {
        "r": (4, 5)
    }


def test_requests_of_one_pass_get_different_slots() -> None:
    on = linked("a", nvlink_pairs(), *range(8))
    requests = [request(f"r{n}", 2) for n in range(4)]
    taken = sorted(slots_of(pool([on], pending=requests)).values())
    assert taken == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_an_agent_with_better_links_precedes_the_fitting_policy() -> None:
    on = [linked("a", pcie_tree(), 0, 7), linked("b", nvswitch(), *range(8))]
    assert starts(decide(pool(on, pending=[request("r", 2)]), NOW)) == {"r": {"b": 2}}


def test_the_fitting_policy_decides_between_equal_links() -> None:
    on = [linked("a", nvswitch(), *range(8)), linked("b", nvswitch(), 2, 3, 7)]
    assert starts(decide(pool(on, pending=[request("r", 2)]), NOW)) == {"r": {"b": 2}}


def test_links_do_not_matter_for_a_single_slot() -> None:
    on = [linked("a", pcie_tree(), 3), linked("b", nvswitch(), *range(8))]
    assert starts(decide(pool(on, pending=[request("r", 1)]), NOW)) == {"r": {"a": 1}}


def test_a_strict_request_waits_for_the_best_class_of_links() -> None:
    on = linked("a", nvlink_pairs(), 0, 2, 4)
    plan = decide(pool([on], pending=[request("r", 2, strict_topology=True)]), NOW)
    assert not plan.start
    code, sentence = plan.waiting["r"]
    assert code is WaitCode.TOPOLOGY
    assert "3 are free on a, linked by NODE instead of NVLink" in sentence
    assert "`topology: soft`" in sentence


def test_a_strict_request_starts_where_no_better_set_exists() -> None:
    on = linked("a", pcie_tree(), 0, 1, 3)
    strict = request("r", 2, strict_topology=True)
    assert slots_of(pool([on], pending=[strict])) == {"r": (0, 1)}


def test_a_strict_request_takes_no_gang_instead_of_one_agent() -> None:
    on = [
        linked("a", nvswitch(4), 0),
        agent("b", 1, free_slots=(0,)),
        agent("c", 1, free_slots=(0,)),
    ]
    plan = decide(pool(on, pending=[request("r", 2, strict_topology=True)]), NOW)
    assert not plan.start


def test_a_strict_request_preempts_no_work_for_links() -> None:
    on = linked("a", nvlink_pairs(), 0, 2)
    strict = request("r", 2, strict_topology=True)
    plan = decide(pool([on], pending=[strict], preemption=True), NOW)
    assert plan.waiting["r"].code is WaitCode.TOPOLOGY


def test_a_gang_prefers_agents_of_one_zone() -> None:
    zones = {"a": "z1", "b": "z2", "c": "z3", "d": "z2"}
    on = [agent(id, 8, place="aws us-east-1", zone=zone) for id, zone in zones.items()]
    assert starts(decide(pool(on, pending=[request("r", 16)]), NOW)) == {"r": {"b": 8, "d": 8}}


def test_a_gang_takes_several_zones_of_a_region_if_no_zone_has_enough() -> None:
    on = [agent(f"a{n}", 8, place="aws us-east-1", zone=f"z{n}") for n in range(2)]
    assert starts(decide(pool(on, pending=[request("r", 16)]), NOW)) == {"r": {"a0": 8, "a1": 8}}
