"""Machines for elastic gangs: for the maximum if the limits allow it, and for the slots that a running gang lacks."""

from det_controlplane.core.provision.model import LEAST_URGENT, Limits, ProvisionCode

from tests.support.provisioning import demand, machine, offer, plan, pool

ONE = offer(1, "1.00")


def test_elastic_gang_rents_for_its_maximum() -> None:
    assert len(plan(pool([ONE], [demand("d", 4, min_slots=2)])).launch) == 4


def test_elastic_gang_rents_as_much_as_the_limits_allow() -> None:
    limits = Limits(max_instances=3)
    assert len(plan(pool([ONE], [demand("d", 4, min_slots=2)], limits=limits)).launch) == 3


def test_elastic_gang_rents_nothing_below_its_minimum() -> None:
    limits = Limits(max_instances=1)
    decided = plan(pool([ONE], [demand("d", 4, min_slots=2)], limits=limits))
    assert not decided.launch
    assert decided.waiting["d"].code is ProvisionCode.MAX_INSTANCES


def test_running_gang_rents_the_slots_that_it_lacks() -> None:
    busy = [machine(f"m{n}", ONE, used_slots=1) for n in range(3)]
    growth = (demand("d", 1, min_slots=1, priority=LEAST_URGENT),)
    assert len(plan(pool([ONE], machines=busy, growth=growth)).launch) == 1


def test_refused_growth_blocks_no_queued_demand() -> None:
    limits = Limits(max_instances=2)
    busy = [machine("m0", ONE, used_slots=1)]
    growth = (demand("grows", 3, min_slots=3, priority=LEAST_URGENT),)
    decided = plan(pool([ONE], [demand("d", 1)], busy, limits, growth=growth))
    assert len(decided.launch) == 1
    assert decided.waiting["d"].code is ProvisionCode.LAUNCHING
