"""The contract of machines from a cloud: inherit `ComputeContract`, give a fixture `cloud`, and its tests run.

    class TestMyCloud(ComputeContract):
        @pytest.fixture
        def cloud(self) -> CloudUnderTest: ...

No test framework is needed: every rule is a method that asserts.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol
from uuid import UUID, uuid4

from det_controlplane.core.provision.gang import Gang
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.ports.compute import (
    CloudMachine,
    Compute,
    LaunchOutcome,
    LaunchRequest,
    Place,
    Unreachable,
)


class CloudUnderTest(Protocol):
    """A cloud that holds no machines yet, and obeys the test."""

    @property
    def compute(self) -> Compute: ...
    @property
    def place(self) -> Place: ...
    @property
    def more_than_a_page(self) -> int:
        """Return a number of machines that one page of a listing does not hold."""
        ...

    def offers(self, capacity: Capacity) -> tuple[Offer, ...]:
        """Return two offers or more, of different machine types, in one zone, the best first."""
        ...

    def refuse(self, offer: Offer, kind: RefusalKind) -> None:
        """Let the cloud refuse launches of an offer in the way that an error of a kind shows."""
        ...

    def allow(self) -> None:
        """End all refusals of the cloud."""
        ...

    def lose_next_answer(self) -> None:
        """Let the next call that launches a machine have its effect, and its answer get lost."""
        ...

    def disconnect(self) -> None:
        """Let no call arrive any more."""
        ...

    def reclaim(self, machine: CloudMachine) -> None:
        """End a machine as the cloud does, when it takes spot capacity back."""
        ...

    def print_on_console(self, machine: CloudMachine, text: str) -> None:
        """Let a machine print on its console."""
        ...

    def add_stranger(self) -> None:
        """Add a machine that no cluster launched."""
        ...


CLUSTER, NEIGHBOUR = "5a1c2b9e-0000-4000-8000-000000000001", "5a1c2b9e-0000-4000-8000-000000000002"
OVER = ("gone", "stopping")


def launch_request(
    cloud: CloudUnderTest,
    offers: Sequence[Offer] = (),
    *,
    cluster_id: str = CLUSTER,
    machine_id: UUID | None = None,
    attempt: int = 1,
    pool: str = "gpus",
    settings: Mapping[str, Any] | None = None,
    gang: Gang | None = None,
) -> LaunchRequest:
    """Make a request as the control plane does."""
    return LaunchRequest(
        cluster_id=cluster_id,
        pool=pool,
        machine_id=machine_id or uuid4(),
        attempt=attempt,
        offers=tuple(offers) or cloud.offers(Capacity.ON_DEMAND)[:1],
        settings=cloud.place.settings if settings is None else settings,
        user_data="#!/bin/sh\necho started\n",
        gang=gang,
    )


def _launch_machine(cloud: CloudUnderTest, request: LaunchRequest) -> CloudMachine:
    machine = cloud.compute.launch(request).machine
    assert machine is not None
    return machine


def _list_machines(cloud: CloudUnderTest, cluster_id: str = CLUSTER) -> dict[str, CloudMachine]:
    """Return the listed machines that have not ended, by id."""
    listed = cloud.compute.owned(cluster_id, cloud.place)
    assert len({m.cloud_id for m in listed}) == len(listed), "a machine is listed twice"
    return {m.cloud_id: m for m in listed if m.state not in OVER}


def _assert_explained(outcome: LaunchOutcome, offer: Offer, kind: RefusalKind) -> None:
    about = [r for r in outcome.refusals if r.scope.covers(offer)]
    assert about, f"nothing says why {offer} gave no machine"
    assert {r.kind for r in about} == {kind}
    assert all(len(r.sentence.split()) >= 3 for r in about), "a refusal needs a sentence"


def _raises_unreachable(call: Callable[[], object]) -> bool:
    try:
        call()
    except Unreachable as e:
        return bool(str(e))
    return False


class ComputeContract:
    """State the promises of every provider of machines."""

    def test_a_machine_is_launched_as_the_offer_says(self, cloud: CloudUnderTest) -> None:
        for capacity in Capacity:
            offer = cloud.offers(capacity)[0]
            request = launch_request(cloud, [offer])
            outcome = cloud.compute.launch(request)
            machine = outcome.machine
            assert machine is not None, outcome.refusals
            assert not outcome.refusals
            assert machine.state in ("pending", "running")
            assert machine.cloud_id
            assert (machine.provider, machine.region) == (cloud.compute.provider, offer.region)
            assert machine.zone == offer.zone
            assert machine.machine_type == offer.machine_type
            assert machine.capacity == capacity.value
            assert (machine.machine_id, machine.pool) == (request.machine_id, "gpus")

    def test_what_is_listed_is_what_was_launched(self, cloud: CloudUnderTest) -> None:
        for capacity in Capacity:
            launched = _launch_machine(cloud, launch_request(cloud, cloud.offers(capacity)[:1]))
            listed = _list_machines(cloud)[launched.cloud_id]
            assert listed.provider == launched.provider
            assert (listed.region, listed.zone) == (launched.region, launched.zone)
            assert listed.machine_type == launched.machine_type
            assert listed.capacity == launched.capacity
            assert (listed.machine_id, listed.pool) == (launched.machine_id, launched.pool)

    def test_an_offer_of_any_zone_gets_a_machine_in_one(self, cloud: CloudUnderTest) -> None:
        best = cloud.offers(Capacity.ON_DEMAND)[0]
        anywhere = Offer(
            best.provider, best.region, "", best.machine_type, best.capacity, best.slots, best.price_usd_hour
        )  # fmt: skip
        machine = _launch_machine(cloud, launch_request(cloud, [anywhere]))
        assert machine.zone.startswith(best.region)

    def test_one_token_gives_one_machine(self, cloud: CloudUnderTest) -> None:
        for offers in (cloud.offers(Capacity.SPOT), cloud.offers(Capacity.ON_DEMAND)[:1]):
            request = launch_request(cloud, offers)
            first, second = _launch_machine(cloud, request), _launch_machine(cloud, request)
            assert first.cloud_id == second.cloud_id
            assert first.machine_id == second.machine_id == request.machine_id
        assert len(_list_machines(cloud)) == 2

    def test_other_machines_have_other_tokens(self, cloud: CloudUnderTest) -> None:
        first, second = (_launch_machine(cloud, launch_request(cloud)) for _ in range(2))
        assert first.cloud_id != second.cloud_id
        assert set(_list_machines(cloud)) == {first.cloud_id, second.cloud_id}

    def test_a_machine_whose_answer_was_lost_is_found_again(self, cloud: CloudUnderTest) -> None:
        for offers in (cloud.offers(Capacity.SPOT), cloud.offers(Capacity.ON_DEMAND)[:1]):
            before, request = set(_list_machines(cloud)), launch_request(cloud, offers)
            cloud.lose_next_answer()
            assert _raises_unreachable(partial(cloud.compute.launch, request))
            machine = _launch_machine(cloud, request)
            assert machine.machine_id == request.machine_id
            assert set(_list_machines(cloud)) - before == {machine.cloud_id}

    def test_two_processes_with_one_token_rent_one_machine(self, cloud: CloudUnderTest) -> None:
        request = launch_request(cloud, cloud.offers(Capacity.SPOT))
        with ThreadPoolExecutor(2) as both:
            launched = list(both.map(cloud.compute.launch, [request, request]))
        cloud_ids = {outcome.machine.cloud_id for outcome in launched if outcome.machine}
        assert cloud_ids, "one of the two has to tell the machine"
        assert cloud_ids == set(_list_machines(cloud))

    def test_a_token_whose_machine_ended_rents_no_other(self, cloud: CloudUnderTest) -> None:
        request = launch_request(cloud, cloud.offers(Capacity.SPOT))
        cloud.reclaim(_launch_machine(cloud, request))
        cloud.compute.launch(request)
        assert _list_machines(cloud) == {}

    def test_each_kind_of_refusal_comes_back_as_a_value(self, cloud: CloudUnderTest) -> None:
        for capacity in Capacity:
            offer = cloud.offers(capacity)[0]
            for kind in RefusalKind:
                cloud.refuse(offer, kind)
                outcome = cloud.compute.launch(launch_request(cloud, [offer]))
                assert outcome.machine is None
                _assert_explained(outcome, offer, kind)
                cloud.allow()
        assert _list_machines(cloud) == {}

    def test_a_refusal_for_lack_of_capacity_spares_other_types(self, cloud: CloudUnderTest) -> None:
        first, second = cloud.offers(Capacity.SPOT)[:2]
        cloud.refuse(first, RefusalKind.NO_CAPACITY)
        outcome = cloud.compute.launch(launch_request(cloud, [first]))
        assert not any(r.scope.covers(second) for r in outcome.refusals)

    def test_another_offer_is_taken_when_the_best_has_no_capacity(
        self, cloud: CloudUnderTest
    ) -> None:
        for capacity in Capacity:
            first, second = cloud.offers(capacity)[:2]
            cloud.refuse(first, RefusalKind.NO_CAPACITY)
            outcome = cloud.compute.launch(launch_request(cloud, [first, second]))
            assert outcome.machine is not None
            assert outcome.machine.machine_type == second.machine_type
            _assert_explained(outcome, first, RefusalKind.NO_CAPACITY)
            cloud.allow()

    def test_every_offer_without_a_machine_says_why(self, cloud: CloudUnderTest) -> None:
        offers = cloud.offers(Capacity.SPOT)[:2]
        kinds = (RefusalKind.NO_CAPACITY, RefusalKind.QUOTA)
        for offer, kind in zip(offers, kinds, strict=True):
            cloud.refuse(offer, kind)
        outcome = cloud.compute.launch(launch_request(cloud, offers))
        assert outcome.machine is None
        for offer, kind in zip(offers, kinds, strict=True):
            _assert_explained(outcome, offer, kind)

    def test_a_refused_request_may_be_repeated(self, cloud: CloudUnderTest) -> None:
        offer = cloud.offers(Capacity.ON_DEMAND)[0]
        request = launch_request(cloud, [offer])
        cloud.refuse(offer, RefusalKind.NO_CAPACITY)
        assert cloud.compute.launch(request).machine is None
        cloud.allow()
        again = launch_request(cloud, [offer], machine_id=request.machine_id, attempt=2)
        assert _launch_machine(cloud, again).machine_id == request.machine_id
        assert len(_list_machines(cloud)) == 1

    def test_every_page_of_a_listing_is_read(self, cloud: CloudUnderTest) -> None:
        launched = [
            _launch_machine(cloud, launch_request(cloud)) for _ in range(cloud.more_than_a_page)
        ]
        assert set(_list_machines(cloud)) == {m.cloud_id for m in launched}

    def test_only_machines_of_the_cluster_are_listed(self, cloud: CloudUnderTest) -> None:
        ours = _launch_machine(cloud, launch_request(cloud))
        theirs = _launch_machine(cloud, launch_request(cloud, cluster_id=NEIGHBOUR))
        cloud.add_stranger()
        assert set(_list_machines(cloud)) == {ours.cloud_id}
        assert set(_list_machines(cloud, NEIGHBOUR)) == {theirs.cloud_id}

    def test_terminated_machines_end_and_others_stay(self, cloud: CloudUnderTest) -> None:
        ends, stays = (_launch_machine(cloud, launch_request(cloud)) for _ in range(2))
        assert list(cloud.compute.terminate([ends])) == []
        assert set(_list_machines(cloud)) == {stays.cloud_id}

    def test_ending_what_is_gone_is_no_error(self, cloud: CloudUnderTest) -> None:
        gone, stays, unknown, ends = (
            _launch_machine(cloud, launch_request(cloud)) for _ in range(4)
        )
        cloud.reclaim(gone)
        cloud.compute.terminate([ends])
        never = _of_another_id(unknown)
        ended = cloud.compute.terminate([gone, never, unknown, ends])
        assert list(ended) == [], ended
        assert list(cloud.compute.terminate([gone, never])) == []
        assert list(cloud.compute.terminate([])) == []
        assert set(_list_machines(cloud)) == {stays.cloud_id}

    def test_many_machines_end_by_one_call(self, cloud: CloudUnderTest) -> None:
        launched = [
            _launch_machine(cloud, launch_request(cloud)) for _ in range(cloud.more_than_a_page)
        ]
        assert list(cloud.compute.terminate(launched)) == []
        assert _list_machines(cloud) == {}

    def test_a_reclaimed_machine_is_gone_or_not_listed(self, cloud: CloudUnderTest) -> None:
        request = launch_request(cloud, cloud.offers(Capacity.SPOT)[:1])
        machine = _launch_machine(cloud, request)
        cloud.reclaim(machine)
        listed = {m.cloud_id: m for m in cloud.compute.owned(CLUSTER, cloud.place)}
        answer = listed.get(machine.cloud_id) or cloud.compute.launch(request).machine
        assert answer is not None
        assert (answer.state, answer.taken_back) == ("gone", True)

    def test_only_reclaimed_machines_are_told_as_taken_back(self, cloud: CloudUnderTest) -> None:
        machine = _launch_machine(cloud, launch_request(cloud))
        cloud.compute.terminate([machine])
        listed = [machine, *cloud.compute.owned(CLUSTER, cloud.place)]
        assert not any(m.taken_back for m in listed)

    def test_what_a_machine_prints_can_be_read(self, cloud: CloudUnderTest) -> None:
        machine = _launch_machine(cloud, launch_request(cloud))
        assert cloud.compute.console(machine, cloud.place) == ""
        cloud.print_on_console(machine, "cloud-init: could not reach the cluster\n")
        assert "could not reach the cluster" in cloud.compute.console(machine, cloud.place)

    def test_a_machine_that_never_was_has_no_console(self, cloud: CloudUnderTest) -> None:
        machine = _of_another_id(_launch_machine(cloud, launch_request(cloud)))
        assert cloud.compute.console(machine, cloud.place) == ""

    def test_a_silent_cloud_is_unreachable(self, cloud: CloudUnderTest) -> None:
        machine = _launch_machine(cloud, launch_request(cloud))
        request = launch_request(cloud)
        cloud.disconnect()
        assert _raises_unreachable(partial(cloud.compute.launch, request))
        assert _raises_unreachable(partial(cloud.compute.terminate, [machine]))
        assert _raises_unreachable(partial(cloud.compute.owned, CLUSTER, cloud.place))


def _of_another_id(machine: CloudMachine) -> CloudMachine:
    """Return a machine that is not there, with an id of the cloud's form."""
    last = "1" if machine.cloud_id[-1] != "1" else "2"
    return CloudMachine(
        machine.provider, machine.region, machine.zone, machine.cloud_id[:-1] + last, "running"
    )
