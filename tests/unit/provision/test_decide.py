"""The rented machines for each demand, and the sentences about them."""

from dataclasses import replace
from decimal import Decimal

import pytest
from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.model import (
    Cooldown,
    Hold,
    Limits,
    ProvisionCode,
    RefusalKind,
)
from det_controlplane.core.provision.offers import Scope

from tests.support.provisioning import (
    GENEROUS,
    NOW,
    applied,
    demand,
    drained,
    ended,
    machine,
    offer,
    plan,
    pool,
    rented,
    spot,
    starting,
    wants,
)

ONE, FOUR, EIGHT = offer(1, "1.00"), offer(4, "3.50"), offer(8, "6.50")


def refused(cheap: object, sentence: str = "no capacity", **more: object) -> Cooldown:
    scope = cheap if isinstance(cheap, Scope) else Scope.of(cheap)  # type: ignore[arg-type]
    cooldown = Cooldown(scope, RefusalKind.NO_CAPACITY, NOW + 200, sentence)
    return replace(cooldown, **more)  # type: ignore[arg-type]


def test_rents_no_machine_for_an_empty_queue() -> None:
    assert not plan(pool([ONE])).launch


def test_small_requests_share_a_large_machine_if_it_is_cheaper() -> None:
    assert rented(plan(pool([ONE, FOUR, EIGHT], wants(1, 1, 1, 1, 1)))) == ["gpu.1x", "gpu.4x"]


def test_one_machine_is_rented_if_it_fits_the_request() -> None:
    assert rented(plan(pool([ONE, FOUR], wants(4)))) == ["gpu.4x"]


def test_a_gang_gets_equal_machines_of_the_cheapest_size() -> None:
    assert rented(plan(pool([FOUR, offer(3, "0.10")], wants(8)))) == ["gpu.4x", "gpu.4x"]


def test_a_gang_over_sizes_is_rented_where_the_scheduler_mixes_them() -> None:
    mixing = replace(GENEROUS, allow_heterogeneous_fits=True)
    result = plan(pool([FOUR], wants(6), [machine("m1", offer(2, 1))], mixing))
    assert rented(result) == ["gpu.4x"]


def test_machines_of_a_gang_have_one_type_and_zone() -> None:
    offers = [
        offer(8, "6.50", machine_type="a", zone="us-east-1b"),
        offer(8, "6.60", machine_type="b", zone="us-east-1a"),
        offer(8, "6.70", machine_type="a", zone="us-east-1a"),
    ]
    first, second = plan(pool(offers, wants(16))).launch
    assert first == second
    assert [(o.machine_type, o.zone[-1]) for o in first.offers] == [("a", "b"), ("a", "a")]


def test_gang_is_completed_with_the_type_of_its_free_machines() -> None:
    same_region, cheaper = offer(8, "6.50", machine_type="a"), offer(8, "6.00", machine_type="b")
    result = plan(pool([cheaper, same_region], wants(16), [machine("m1", same_region)]))
    assert rented(result) == ["a"]
    assert "b on-demand: of another type or region than" in result.waiting["d1"].sentence


HERE = offer(4, "6.50")
THERE = offer(4, "6.00", provider="gcp", region="us-central1", zone="us-central1-a")


def test_a_gang_is_completed_in_the_place_of_its_free_machines() -> None:
    result = plan(pool([THERE, HERE], wants(8), [machine("m1", HERE)]))
    assert [launch.offers for launch in result.launch] == [(HERE,)]


def test_free_machines_in_two_regions_do_not_form_a_gang() -> None:
    free = [machine("m1", HERE), machine("m2", THERE)]
    result = plan(pool([HERE, THERE], wants(8), free))
    assert [launch.offers for launch in result.launch] == [(THERE,)]


def test_gang_moves_to_a_region_that_can_rent_all_its_machines() -> None:
    """Half of the gang has joined, and its region has no more capacity."""
    result = plan(pool([HERE, THERE], wants(8), [machine("m1", HERE)]), [refused(HERE)])
    assert [launch.offers for launch in result.launch] == [(THERE,), (THERE,)]


def test_machines_of_an_incomplete_gang_are_terminated_after_the_wait() -> None:
    cooling = [refused(HERE), refused(THERE)]
    limits = Limits(max_idle_s=600, max_starting_s=300)
    half = [machine(f"m{n}", HERE, idle_since=NOW - 500) for n in (1, 2)]
    result = plan(pool([HERE, THERE], wants(16), half, limits), cooling)
    assert (result.launch, ended(result)) == ((), {})
    assert result.waiting["d1"].code is ProvisionCode.COOLING_DOWN
    assert result.waiting["d1"].next_try == NOW + 200
    late = [machine(f"m{n}", HERE, idle_since=NOW - 700) for n in (1, 2)]
    given_back = plan(pool([HERE, THERE], wants(16), late, limits), cooling)
    assert given_back.launch == ()
    assert ended(given_back) == {"m1": "IDLE", "m2": "IDLE"}


def test_mixed_gang_is_completed_within_one_region() -> None:
    mixing = replace(GENEROUS, allow_heterogeneous_fits=True)
    small = offer(2, 1, provider="gcp", region="us-central1", zone="us-central1-a")
    free = [machine("m1", small), machine("m2", offer(2, 1))]
    result = plan(pool([HERE], wants(6), free, mixing))
    assert [launch.offers for launch in result.launch] == [(HERE,)]


def test_job_gets_machines_only_up_to_its_max_slots() -> None:
    capped = wants(1, 1, 1, job_id="j", job_max_slots=4, job_held_slots=2)
    result = plan(pool([ONE], capped))
    assert len(result.launch) == 2
    assert set(result.waiting) == {"d1", "d2"}


def test_containers_without_slots_share_machines_up_to_their_limit() -> None:
    limits = replace(GENEROUS, max_aux_containers=2)
    assert rented(plan(pool([ONE, FOUR], wants(0, 0, 0), limits=limits))) == ["gpu.1x", "gpu.1x"]


def test_containers_without_slots_share_machines_rented_for_other_work() -> None:
    assert rented(plan(pool([ONE], wants(0, 1)))) == ["gpu.1x"]


def test_free_slots_of_busy_and_starting_machines_are_used_first() -> None:
    machines = [machine("m1", FOUR, used_slots=3), starting("m2", ONE)]
    result = plan(pool([ONE, FOUR], wants(1, 1, 1), machines))
    assert rented(result) == ["gpu.1x"]
    codes = sorted(reason.code for reason in result.waiting.values())
    assert codes == [ProvisionCode.LAUNCHING, ProvisionCode.MACHINE_STARTING]


def test_machine_blocked_for_the_request_does_not_count() -> None:
    kept_off = demand("d", 1, blocked_agents=frozenset({"m1"}))
    assert rented(plan(pool([ONE], [kept_off], [machine("m1", ONE)]))) == ["gpu.1x"]


def test_disconnected_machine_does_not_count_as_free() -> None:
    silent = machine("m1", ONE, takes_work=False, disconnected_since=NOW - 60, idle_since=None)
    result = plan(pool([ONE], wants(1), [silent]))
    assert rented(result) == ["gpu.1x"]
    assert not result.terminate


def test_order_of_the_offers_decides_between_equal_prices() -> None:
    first, second = offer(1, 1, machine_type="first"), offer(1, 1, machine_type="second")
    assert rented(plan(pool([first, second], wants(1)))) == ["first"]


def test_recently_reclaimed_spot_offers_count_as_more_expensive() -> None:
    cheap, steady = spot(1, "0.90"), offer(1, "1.00")
    reclaims = [(Scope.of(cheap), NOW - 600)] * 2
    launch = plan(pool([cheap, steady], wants(1)), interruptions=reclaims).launch[0]
    assert launch.offers == (steady,)
    reason = plan(pool([cheap, steady], wants(1)), interruptions=reclaims).waiting["d1"]
    assert "gpu.1x spot: reclaimed so often recently" in reason.sentence
    old = [(Scope.of(cheap), NOW - 3 * 86400)] * 2
    assert plan(pool([cheap, steady], wants(1)), interruptions=old).launch[0].offers[0] == cheap


def test_reclaim_in_a_zone_does_not_count_for_other_zones() -> None:
    anywhere, other_region = spot(1, "0.90", zone=""), spot(1, "0.95", zone="us-east-1b")
    reclaims = [(Scope("aws", "us-east-1", "us-east-1a", "gpu.1x"), NOW - 60)] * 2
    result = plan(pool([anywhere, other_region], wants(1)), interruptions=reclaims)
    assert result.launch[0].offers[0] == other_region


def test_alternatives_of_a_call_have_one_capacity_and_similar_prices() -> None:
    here = spot(1, "0.40")
    near = spot(1, "0.45", zone="us-east-1b")
    dear = spot(1, "1.60", machine_type="big")
    other_offer = offer(1, "1.00")
    assert plan(pool([other_offer, dear, near, here], wants(1))).launch[0].offers == (here, near)


def test_the_queue_is_served_in_order_while_machines_are_allowed() -> None:
    result = plan(pool([FOUR], wants(4, 4, 4), limits=Limits(max_instances=2)))
    assert [launch.purpose for launch in result.launch] == ["d1", "d2"]
    reason = result.waiting["d3"]
    assert reason.code is ProvisionCode.MAX_INSTANCES
    assert "has 2 of at most 2 machines (max_instances)" in reason.sentence


def test_larger_machine_is_rented_if_the_cheapest_would_exceed_the_maximum() -> None:
    result = plan(pool([ONE, offer(4, "9.00")], wants(1, 1, 1), limits=Limits(max_instances=1)))
    assert rented(result) == ["gpu.4x"]


def test_gang_beyond_the_maximum_rents_no_machine() -> None:
    result = plan(pool([FOUR], wants(12), limits=Limits(max_instances=2)))
    assert not result.launch
    assert result.waiting["d1"].code is ProvisionCode.MAX_INSTANCES
    assert "needs 12 slots: 3 machines, and the pool may have 2" in result.waiting["d1"].sentence


def test_waiting_request_stops_lower_priorities_from_renting() -> None:
    queue = [demand("high", 12, priority=40), demand("low", 4, priority=42)]
    limits = Limits(max_instances=2)
    blocked = plan(pool([FOUR], queue, limits=limits))
    assert not blocked.launch
    assert blocked.waiting["low"].code is ProvisionCode.BEHIND_HIGHER_PRIORITY
    backfilled = plan(pool([FOUR], queue, limits=replace(limits, preemption=True)))
    assert [launch.purpose for launch in backfilled.launch] == ["low"]


def test_the_cost_of_all_machines_stays_below_max_hourly_cost() -> None:
    limits = Limits(max_instances=9, max_hourly_cost=Decimal("8.00"))
    result = plan(pool([FOUR], wants(4, 4), [machine("m1", FOUR, used_slots=4)], limits))
    assert [launch.purpose for launch in result.launch] == ["d1"]
    reason = result.waiting["d2"]
    assert reason.code is ProvisionCode.MAX_HOURLY_COST
    assert "cost $7.00 of at most $8.00 an hour" in reason.sentence


def test_reason_has_the_price_of_the_whole_gang() -> None:
    limits = Limits(max_hourly_cost=Decimal("8.00"))
    reason = plan(pool([FOUR], wants(12), limits=limits)).waiting["d1"]
    assert (
        "the cheapest that fits is 3 × aws us-east-1a gpu.4x on-demand at $3.50" in reason.sentence
    )


def test_an_offer_above_its_price_cap_is_not_rented() -> None:
    capped = replace(ONE, max_price_usd_hour=Decimal("0.80"))
    reason = plan(pool([capped], wants(1))).waiting["d1"]
    assert reason.code is ProvisionCode.PRICE_CAP
    assert "costs $1.00 an hour, above its max_price $0.80" in reason.sentence


def test_reason_explains_a_skipped_cheaper_offer() -> None:
    cheap, dear = spot(1, "0.40"), offer(1, "1.00")
    result = plan(pool([cheap, dear], wants(1)), [refused(cheap)])
    assert result.launch[0].offers == (dear,)
    assert (
        "cheaper: aws us-east-1a gpu.1x spot: no capacity; tried again at"
        in result.waiting["d1"].sentence
    )


def test_when_all_offers_are_refused_the_reason_names_them_and_the_next_try() -> None:
    offers = [spot(1, "0.40"), offer(1, "1.00")]
    later = refused(offers[1], "the quota is used up", until=NOW + 500)
    result = plan(pool(offers, wants(1)), [refused(offers[0]), later])
    reason = result.waiting["d1"]
    assert not result.launch
    assert (reason.code, reason.next_try) == (ProvisionCode.COOLING_DOWN, NOW + 200)
    assert "gpu.1x spot: no capacity" in reason.sentence
    assert "gpu.1x on-demand: the quota is used up" in reason.sentence
    assert result.next_at == NOW + 200


def test_a_refusal_of_a_region_covers_all_its_offers() -> None:
    result = plan(pool([ONE, FOUR], wants(1)), [refused(Scope("aws", "us-east-1"))])
    assert "and 1 more: no capacity" in result.waiting["d1"].sentence


def test_invalid_offer_is_skipped_until_it_is_corrected() -> None:
    invalid = refused(ONE, "no image ami-1", kind=RefusalKind.INVALID, until=NOW + 3e8)
    reason = plan(pool([ONE, FOUR], wants(1)), [invalid]).waiting["d1"]
    assert "gpu.1x" not in reason.sentence.partition(";")[0]
    alone = plan(
        pool([ONE, spot(1, 1, region="eu-west-1", max_price_usd_hour=Decimal(0))], wants(1)),
        [invalid],
    )
    assert "no image ami-1; correct it, then `det pool resume pool`" in alone.waiting["d1"].sentence
    assert alone.waiting["d1"].next_try is None


def test_expired_refusal_has_no_effect() -> None:
    assert plan(pool([ONE], wants(1)), [refused(ONE, until=NOW - 1)]).launch


def test_held_pool_rents_no_machine_and_gives_the_reason() -> None:
    held_pool = pool(
        [ONE], wants(1), limits=Limits(min_instances=1), holds=(Hold("held by admin"),)
    )
    result = plan(held_pool)
    assert not result.launch
    assert result.waiting["d1"].code is ProvisionCode.POOL_HELD
    assert "held by admin" in result.waiting["d1"].sentence


def test_a_hold_ends_at_its_time() -> None:
    assert plan(pool([ONE], wants(1), holds=(Hold("spent", until=NOW - 1),))).launch


def test_pool_is_held_if_all_offers_exceed_quotas_repeatedly() -> None:
    quota = refused(ONE, "request a larger vCPU quota", kind=RefusalKind.QUOTA, failures=3)
    reason = plan(pool([ONE], wants(1)), [quota]).waiting["d1"]
    assert (reason.code, reason.next_try) == (ProvisionCode.POOL_HELD, NOW + 200)
    assert "request a larger vCPU quota" in reason.sentence


@pytest.mark.parametrize(
    ("slots", "single"), [(3, False), (4, True)], ids=["divides by no size", "on one machine"]
)
def test_request_too_large_for_every_offer_has_a_reason(slots: int, single: bool) -> None:
    reason = plan(pool([offer(2, 1)], [demand("d", slots, single_agent=single)])).waiting["d"]
    assert reason.code is ProvisionCode.NO_OFFER_FITS
    assert "the machines of the pool have 2 slots" in reason.sentence


def test_the_minimum_and_warm_machines_are_rented_without_demand() -> None:
    assert len(plan(pool([ONE], limits=Limits(min_instances=2))).launch) == 2
    busy = machine("m1", ONE, used_slots=1)
    assert len(plan(pool([ONE], machines=[busy], limits=Limits(warm_instances=1))).launch) == 1
    idle = machine("m2", ONE)
    assert not plan(pool([ONE], machines=[busy, idle], limits=Limits(warm_instances=1))).launch


def test_used_warm_machine_is_replaced_immediately() -> None:
    limits = Limits(warm_instances=1)
    assert len(plan(pool([ONE], wants(1), [machine("m1", ONE)], limits)).launch) == 1


def test_longest_idle_machines_are_terminated_first() -> None:
    machines = [
        machine("new", ONE, idle_since=NOW - 60),
        machine("old", ONE, idle_since=NOW - 1300),
        machine("oldest", ONE, idle_since=NOW - 1400),
    ]
    assert ended(plan(pool([ONE], machines=machines))) == {"old": "IDLE", "oldest": "IDLE"}
    keep_two = pool([ONE], machines=machines, limits=Limits(min_instances=2))
    assert ended(plan(keep_two)) == {"oldest": "IDLE"}
    keep_warm = pool([ONE], machines=machines, limits=Limits(warm_instances=2))
    assert ended(plan(keep_warm)) == {"oldest": "IDLE"}


def test_idle_machine_with_unsent_log_lines_stays_for_a_limited_time() -> None:
    limits = Limits(max_idle_s=60)
    machines = [
        machine("sent", ONE, idle_since=NOW - 300, unsent_at=NOW - 250),
        machine("sending", ONE, idle_since=NOW - 300, unsent_at=NOW - 20),
        machine("unable", ONE, idle_since=NOW - 961, unsent_at=NOW - 20),
    ]
    ends = ended(plan(pool([ONE], machines=machines, limits=limits)))
    assert ends == {"sent": "IDLE", "unable": "IDLE"}


def test_pool_with_a_spent_budget_terminates_idle_machines() -> None:
    limits = Limits(min_instances=2, warm_instances=1)
    machines = [machine("idle", ONE, idle_since=NOW - 1300), machine("busy", ONE, used_slots=1)]
    held_pool = pool([ONE], machines=machines, limits=limits, holds=(Hold("held by admin"),))
    assert ended(plan(held_pool)) == {}
    spent_pool = replace(held_pool, holds=(*held_pool.holds, Hold("spent", of_budget=True)))
    assert ended(plan(spent_pool)) == {"idle": "IDLE"}


def test_next_decision_is_due_at_the_idle_timeout_of_a_machine() -> None:
    result = plan(pool([ONE], machines=[machine("m1", ONE, idle_since=NOW - 1000)]))
    assert result.next_at == NOW + 200


def test_idle_machine_needed_by_a_waiting_request_stays() -> None:
    idle = machine("m1", FOUR, idle_since=NOW - 1300)
    assert not plan(pool([FOUR], wants(8), [idle])).terminate


def test_machine_unused_by_the_scheduler_is_terminated_eventually() -> None:
    idle = machine("m1", FOUR, idle_since=NOW - 2500)
    assert ended(plan(pool([FOUR], wants(4), [idle]))) == {"m1": "IDLE"}


def test_stopped_machine_is_terminated() -> None:
    assert ended(plan(pool([ONE], machines=[machine("m1", ONE, stopped=True)]))) == {
        "m1": "STOPPED"
    }


def test_disconnected_machine_is_terminated_after_ten_minutes() -> None:
    silent = machine("m1", ONE, used_slots=1, takes_work=False, disconnected_since=NOW - 601)
    assert ended(plan(pool([ONE], machines=[silent]))) == {"m1": "DISCONNECTED"}


def test_broken_machine_is_terminated_after_ten_idle_minutes() -> None:
    broken = {"is_broken": True, "takes_work": False}
    limits = Limits(min_instances=1, max_instances=3)
    fresh = machine("m1", FOUR, idle_since=NOW - 500, **broken)
    late = machine("m2", FOUR, idle_since=NOW - 601, **broken)
    busy = machine("m3", FOUR, used_slots=1, **broken)
    result = plan(pool([FOUR], machines=[fresh, late, busy], limits=limits))
    assert ended(result) == {"m2": "OUT_OF_SERVICE"}
    assert result.next_at == NOW + 100


def test_machine_that_never_joins_is_terminated_and_replaced() -> None:
    overdue = starting("m1", ONE, purpose="d1")
    overdue = replace(overdue, launched_at=NOW - 1200)
    result = plan(pool([ONE], wants(1), [overdue]))
    assert ended(result) == {"m1": "NEVER_REGISTERED"}
    assert len(result.launch) == 1


def test_booting_machine_without_purpose_is_terminated_after_the_idle_timeout() -> None:
    booting = replace(starting("m1", ONE, purpose="gone"), launched_at=NOW - 90)
    brief, usual = replace(GENEROUS, max_idle_s=60.0), replace(GENEROUS, max_idle_s=120.0)
    assert ended(plan(pool([ONE], machines=[booting], limits=brief))) == {"m1": "NOT_NEEDED"}
    assert not ended(plan(pool([ONE], machines=[booting], limits=usual)))
    assert not ended(plan(pool([ONE], wants(1), [booting], limits=brief)))


def test_machine_request_is_canceled_if_its_purpose_is_gone() -> None:
    requested_machine = starting("m1", ONE, state=MachineState.REQUESTED, purpose="gone")
    assert ended(plan(pool([ONE], machines=[requested_machine]))) == {"m1": "NOT_NEEDED"}
    assert not plan(pool([ONE], wants(1), [requested_machine])).terminate


def test_reclaimed_machine_is_drained_and_replaced_immediately() -> None:
    leaving = machine("m1", FOUR, used_slots=4, leaving_since=NOW - 1)
    here = pool([FOUR], machines=[leaving], limits=Limits(max_instances=1))
    result = plan(here)
    assert drained(result) == {"m1": "RECLAIMED"}
    assert rented(result) == ["gpu.4x"]
    broken_pool = pool([FOUR], machines=[replace(leaving, is_broken=True)])
    assert drained(plan(broken_pool)) == {"m1": "BROKEN"}
    second_result = plan(applied(here, result))
    assert not second_result.launch
    assert not second_result.terminate


def test_drained_machine_is_terminated() -> None:
    drained_machine = machine("m1", ONE, state=MachineState.DRAINING, takes_work=False)
    assert ended(plan(pool([ONE], machines=[drained_machine]))) == {"m1": "DRAINED"}


def test_starting_then_idle_then_busy_machines_leave_above_the_maximum() -> None:
    machines = [
        machine("old", ONE, used_slots=1),
        machine("new", ONE, used_slots=1, launched_at=NOW - 300),
        machine("idle", ONE),
        starting("starting", ONE),
    ]
    result = plan(pool([ONE], machines=machines, limits=Limits(max_instances=1)))
    assert ended(result) == {"starting": "OVER_MAXIMUM", "idle": "OVER_MAXIMUM"}
    assert drained(result) == {"new": "OVER_MAXIMUM"}
    settled_pool = applied(pool([ONE], machines=machines, limits=Limits(max_instances=1)), result)
    assert not drained(plan(settled_pool))


def test_machines_leave_above_a_lowered_max_hourly_cost() -> None:
    machines = [
        machine("m1", FOUR, used_slots=1),
        machine("m2", FOUR, used_slots=1, launched_at=NOW - 9),
    ]
    limits = Limits(max_hourly_cost=Decimal("4.00"))
    assert drained(plan(pool([FOUR], machines=machines, limits=limits))) == {"m2": "BUDGET"}
    idle = [machine("m1", FOUR), machines[1]]
    assert ended(plan(pool([FOUR], machines=idle, limits=limits))) == {"m1": "BUDGET"}


def test_rents_only_machines_that_the_scheduler_would_use() -> None:
    # The single slot takes one of the three small machines, and would leave the larger one idle.
    offers = [offer(1, "0.10"), offer(2, "0.10")]
    result = plan(pool(offers, wants(1, 3), limits=Limits(max_instances=4)))
    assert rented(result) == ["gpu.1x"] * 4


def test_container_without_slots_has_a_reason_for_waiting() -> None:
    lone = demand("d", 0, single_agent=True)
    reason = plan(pool([ONE], [lone], limits=Limits(max_instances=0))).waiting["d"]
    assert reason.code is ProvisionCode.MAX_INSTANCES
    none = plan(pool([ONE], [lone], limits=Limits(max_aux_containers=0))).waiting["d"]
    assert "max_aux_containers_per_agent of the pool is 0" in none.sentence
