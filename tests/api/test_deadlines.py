"""Experiments with a deadline: spot machines while time is left, and machines on demand before they could be late."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Scope
from det_controlplane.db.engine.database import Database
from det_controlplane.db.machines import provision
from det_controlplane.services.machines.watched_deadlines import look_if_due
from sqlalchemy import text

from tests.support.api import Caller, create
from tests.support.inbox import make_webhook
from tests.support.processes import eventually
from tests.support.rented import RentedCluster, offer, reason, rented_cluster

OFFERS = (offer("0.40"), offer("1.00", Capacity.ON_DEMAND))
SPOT = Scope("aws", capacity="spot")


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[RentedCluster]:
    with rented_cluster(database, tmp_path, OFFERS) as rented_machines:
        yield rented_machines


@pytest.fixture
def user(cluster: RentedCluster) -> Caller:
    return cluster.api.signed_in("determined")


def submit(user: Caller, **resources: Any) -> int:
    return create(user, activate=True, resources={"slots_per_trial": 1, **resources})


def capacities(cluster: RentedCluster) -> list[str]:
    return [machine.offer.capacity.value for machine in cluster.cloud.alive()]


def refuse_spot(cluster: RentedCluster) -> None:
    cluster.cloud.refuse(SPOT, RefusalKind.NO_CAPACITY, "no spot capacity")


def wait_until(cluster: RentedCluster, hours: float, step_h: float = 0.1) -> list[float]:
    """Return the hours at which a machine came, up to a time."""
    came, passed = [], 0.0
    while passed < hours and not cluster.cloud.alive():
        cluster.pass_time(hours=step_h)
        passed += step_h
        cluster.settle()
        if cluster.cloud.alive():
            came.append(passed)
    return came


def test_time_span_becomes_a_deadline(cluster: RentedCluster, user: Caller) -> None:
    id = submit(user, finish_within="20h")
    resources = user.get(f"/api/v1/experiments/{id}")["experiment"]["config"]["resources"]
    assert resources["deadline"] == "2026-01-01T20:00:00Z"
    assert "finish_within" not in resources


def test_configuration_without_a_deadline_has_no_keys_of_it(user: Caller) -> None:
    resources = user.get(f"/api/v1/experiments/{submit(user)}")["experiment"]["config"]["resources"]
    assert not {"deadline", "finish_within", "expected_hours"} & resources.keys()


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"deadline": "2026-01-01T20:00"}, "needs a time zone"),
        ({"deadline": "soon"}, "must be a time such as"),
        ({"deadline": "2026-01-02T00:00Z", "finish_within": "20h"}, "choose one"),
        ({"finish_within": "0h"}, "longer than zero"),
        ({"finish_within": 20}, "is 20 seconds, and the shortest is a minute; add a unit"),
        (
            {"deadline": "2025-12-31T00:00Z"},
            "2025-12-31T00:00:00Z is in the past; the earliest possible time is 2026-01-01T00:15:00Z, without",
        ),
        (
            {"finish_within": "20h", "expected_hours": 20},
            "even machines on demand need 20 h of work, a reserve of 5 % and 15 min to start; the earliest"
            " possible time is 2026-01-01T21:15:00Z",
        ),
        (
            {"finish_within": "6m"},
            "is 6 min away, and even machines on demand need 15 min to start; the earliest possible time is"
            " 2026-01-01T00:15:00Z, without the training itself: set resources.expected_hours",
        ),
    ],
)
def test_impossible_deadline_is_refused(
    user: Caller, resources: dict[str, Any], message: str
) -> None:
    config = {"resources": {"slots_per_trial": 1, **resources}}
    with pytest.raises(AssertionError, match="400") as refusal:
        create(user, activate=True, **config)
    assert message in str(refusal.value)


def test_refusal_in_a_pool_of_own_machines_mentions_no_rented_ones(
    database: Database, tmp_path: Path
) -> None:
    with rented_cluster(database, tmp_path, ()) as cluster:
        user = cluster.api.signed_in("determined")
        with pytest.raises(AssertionError, match="400") as refusal:
            submit(user, finish_within="20h", expected_hours=20)
    assert (
        "is 20.0 h away, and it needs 20 h of work and a reserve of 5 %; the earliest possible time is"
        " 2026-01-01T21:00:00Z" in str(refusal.value)
    )


def test_work_with_slack_is_rented_on_spot_machines_only(
    cluster: RentedCluster, user: Caller
) -> None:
    id = submit(user, finish_within="40h", expected_hours=20)
    cluster.settle()
    assert capacities(cluster) == ["spot"]
    assert (
        "so it stays on aws us-east-1a g5.1 spot (expected cost $13.33, on demand alone $21.25)"
        in reason(user, id)
    )


def test_work_waits_without_a_machine_until_its_last_chance(
    cluster: RentedCluster, user: Caller
) -> None:
    refuse_spot(cluster)
    id = submit(user, finish_within="30h", expected_hours=20)
    cluster.settle()
    assert capacities(cluster) == []
    sentence = reason(user, id)
    assert "so it waits for a spot machine (expected cost $" in sentence
    assert "about 21.0 h of work" in sentence
    (came,) = wait_until(cluster, 30)
    assert capacities(cluster) == ["on-demand"]
    assert 2 < came <= 30 - 21 - 0.25, "it waited, and can still be in time"
    assert "on demand is expected to be cheapest now" in reason(user, id)


def test_work_without_slack_starts_on_demand(cluster: RentedCluster, user: Caller) -> None:
    submit(user, finish_within="21.3h", expected_hours=20)
    cluster.settle()
    assert capacities(cluster) == ["on-demand"]


def test_last_chance_takes_no_free_spot_machine(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    _, agent = cluster.employ()
    agent.finish()
    cluster.settle(1)
    id = submit(user, finish_within="21.1h", expected_hours=20)
    cluster.settle()
    assert sorted(capacities(cluster)) == ["on-demand", "spot"]
    assert "waiting for aws us-east-1a g5.1 on-demand" in reason(user, id)


def test_unknown_pace_uses_any_machine_at_once(cluster: RentedCluster, user: Caller) -> None:
    refuse_spot(cluster)
    id = submit(user, finish_within="30h")
    cluster.settle()
    assert capacities(cluster) == ["on-demand"]
    assert "its pace is not known" in reason(user, id)


def test_waiting_work_blocks_no_other_work(cluster: RentedCluster, user: Caller) -> None:
    refuse_spot(cluster)
    submit(user, finish_within="30h", expected_hours=10)
    cluster.settle()
    create(user, activate=True)
    _, agent = cluster.employ()
    assert len(agent.running) == 1


def ready(user: Caller, agent: Any) -> str:
    (order,) = agent.running.values()
    user.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
    return str(order["allocation_id"])


def test_run_moves_back_to_spot_once_its_machine_has_joined(
    cluster: RentedCluster, user: Caller
) -> None:
    id = submit(user, finish_within="21.3h", expected_hours=20)
    _, agent = cluster.employ()
    allocation_id = ready(user, agent)
    user.done(
        "PATCH", f"/api/v1/experiments/{id}", {"resources": {"deadline": "2026-01-05T00:00Z"}}
    )
    cluster.settle()
    assert sorted(capacities(cluster)) == ["on-demand", "spot"]
    (order,) = agent.poll()
    assert not order["preempt"], "its machine has not joined"
    spot = next(m for m in cluster.cloud.alive() if m.offer.capacity is Capacity.SPOT)
    new_agent = cluster.boot(spot)
    cluster.settle()
    (order,) = agent.poll()
    assert order["preempt"]
    user.post(f"/api/v1/allocations/{allocation_id}/signals/ack_preemption")
    agent.finish()
    cluster.settle()
    assert new_agent.poll(), "the next run is on the spot machine"
    assert "stays on aws us-east-1a g5.1 spot" in reason(user, id)


def test_run_on_spot_moves_to_demand_before_a_loss_could_make_it_late(
    cluster: RentedCluster, user: Caller
) -> None:
    id = submit(user, finish_within="60h", expected_hours=20)
    _, agent = cluster.employ()
    ready(user, agent)
    deadline = (cluster.time + timedelta(hours=21.02)).isoformat()
    user.done("PATCH", f"/api/v1/experiments/{id}", {"resources": {"deadline": deadline}})
    cluster.settle()
    assert sorted(capacities(cluster)) == ["on-demand", "spot"]
    machine = next(m for m in cluster.cloud.alive() if m.offer.capacity is Capacity.ON_DEMAND)
    cluster.boot(machine)
    cluster.settle()
    (order,) = agent.poll()
    assert order["preempt"]
    assert "it moves to a machine for its deadline" in reason(user, id)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90m", "2026-01-01T01:30:00Z"),
        ("1h30m", "2026-01-01T01:30:00Z"),
        ("2026-01-02T00:00+01:00", "2026-01-01T23:00:00Z"),
    ],
)
def test_deadline_is_set_to_a_time_or_a_duration(user: Caller, text: str, expected: str) -> None:
    path = f"/api/v1/experiments/{submit(user)}"
    user.done("PATCH", path, {"resources": {"deadline": text}})
    assert user.get(path)["experiment"]["config"]["resources"]["deadline"] == expected


@pytest.mark.parametrize("text", ["soon", "", "3x", "0h", "9" * 400 + "h", "9999999999h"])
def test_wrong_deadline_is_refused_with_examples(user: Caller, text: str) -> None:
    path = f"/api/v1/experiments/{submit(user)}"
    response = user.ask("PATCH", path, {"resources": {"deadline": text}})
    assert response.status == 400
    assert "deadline" in response.error
    assert "a duration such as 3h" in response.error or "is in the past" in response.error


def test_deadline_is_removed(cluster: RentedCluster, user: Caller) -> None:
    refuse_spot(cluster)
    id = submit(user, finish_within="30h", expected_hours=10)
    cluster.settle()
    assert capacities(cluster) == []
    user.done("PATCH", f"/api/v1/experiments/{id}", {"resources": {"deadline": "none"}})
    cluster.settle()
    assert capacities(cluster) == ["on-demand"]
    assert "deadline" not in reason(user, id)


def test_past_deadline_uses_any_machine(cluster: RentedCluster, user: Caller) -> None:
    refuse_spot(cluster)
    cluster.cloud.refuse(Scope("aws"), RefusalKind.NO_CAPACITY, "no capacity at all")
    id = submit(user, finish_within="2h", expected_hours=1)
    cluster.settle()
    cluster.pass_time(hours=3)
    cluster.settle()
    assert "it passed 1.0 h ago, so any machine is used" in reason(user, id)


def test_deadline_that_passed_since_the_last_decision_has_passed(
    cluster: RentedCluster, user: Caller
) -> None:
    refuse_spot(cluster)
    id = submit(user, finish_within="2h", expected_hours=1)
    cluster.settle()
    cluster.pass_time(minutes=119)
    cluster.settle()
    assert "UTC: 1 min left, about 1.1 h of work" in reason(user, id)
    cluster.pass_time(minutes=2)
    assert "it passed 1 min ago, so any machine is used" in reason(user, id)


def test_decisions_follow_while_work_waits(cluster: RentedCluster, user: Caller) -> None:
    refuse_spot(cluster)
    submit(user, finish_within="30h", expected_hours=10)
    cluster.settle()
    with cluster.api.ctx.db.begin() as tx:
        from det_controlplane.services.machines import deciding

        due = deciding.next_due(cluster.api.ctx, tx)
    assert due is not None
    assert due - cluster.time <= timedelta(minutes=5)


@pytest.fixture
def today(cluster: RentedCluster) -> None:
    """Let the cluster's clock show the database's time, with which ended deadlines are compared."""
    cluster.time = datetime.now(timezone.utc)


def shown(user: Caller, id: int) -> dict[str, Any]:
    listed = user.get("/api/v1/experiments")
    deadline: dict[str, Any] = user.get(f"/api/v1/experiments/{id}")["experiment"]["deadline"]
    assert listed["experiments"][-1]["deadline"] == deadline
    return deadline


@pytest.mark.usefixtures("today")
def test_experiment_shows_its_outlook_and_the_chosen_machines(
    cluster: RentedCluster, user: Caller
) -> None:
    refuse_spot(cluster)
    id = submit(user, finish_within="30h", expected_hours=10)
    assert (shown(user, id)["reason"], shown(user, id)["decidedAt"]) == ("", None)
    cluster.settle()
    deadline = shown(user, id)
    assert (deadline["state"], deadline["choice"], deadline["probability"]) == (
        "ON_TRACK", "WAIT", 1.0,
    )  # fmt: skip
    assert "so it waits for a spot machine" in deadline["reason"]
    start = cluster.time.isoformat()[:19]
    assert start < deadline["predictedEnd"] < deadline["time"]


def test_experiment_without_a_deadline_shows_none(user: Caller) -> None:
    assert shown(user, submit(user)) is None


@pytest.mark.usefixtures("today")
def test_ended_experiment_shows_whether_its_deadline_was_met(
    cluster: RentedCluster, user: Caller
) -> None:
    id = submit(user, finish_within="30h", expected_hours=10)
    user.post(f"/api/v1/experiments/{id}/kill")
    deadline = shown(user, id)
    assert (deadline["state"], deadline["predictedEnd"], deadline["reason"]) == ("MET", None, "")


@pytest.mark.usefixtures("today")
def test_deadline_is_sorted_by_in_the_table_of_experiments(user: Caller) -> None:
    later, sooner = (submit(user, finish_within=span) for span in ("30h", "20h"))
    body = {"projectId": 0, "sort": "deadline=asc"}
    rows = user.post("/api/v1/experiments-search", body)["experiments"]
    assert [row["experiment"]["id"] for row in rows] == [sooner, later]


def messages(cluster: RentedCluster) -> list[dict[str, Any]]:
    """Return the data of the webhook messages, the oldest first."""
    query = "SELECT payload->'event'->'event_data' FROM outbox WHERE kind = 'webhook' ORDER BY id"
    with cluster.api.ctx.db.begin() as tx:
        return list(tx.execute(text(query)).scalars())


def listen(user: Caller, subject: str = "deadline") -> None:
    trigger = {"triggerType": "TRIGGER_TYPE_CUSTOM", "condition": {"subject": subject}}
    make_webhook(user, triggers=[trigger])


def test_webhook_reports_each_worse_state_of_a_deadline_once(
    cluster: RentedCluster, user: Caller
) -> None:
    listen(user)
    cluster.cloud.refuse(Scope("aws"), RefusalKind.NO_CAPACITY, "no capacity at all")
    id = submit(user, finish_within="2h", expected_hours=1)
    for _ in range(45):
        cluster.settle(1)
        cluster.pass_time(minutes=3)
    assert [message["deadline"]["state"] for message in messages(cluster)] == [
        "LAST_CHANCE",
        "IN_DANGER",
        "MISSED",
    ]
    first, second, _ = messages(cluster)
    assert first["custom_data"]["title"] == (
        f"Experiment {id} uses machines on demand for its deadline"
    )
    assert (first["custom_data"]["level"], second["custom_data"]["level"]) == ("WARNING", "ERROR")
    assert second["experiment"]["id"] == id


def test_deadline_on_track_sends_no_message(cluster: RentedCluster, user: Caller) -> None:
    listen(user)
    submit(user, finish_within="40h", expected_hours=20)
    cluster.settle()
    assert messages(cluster) == []


def test_webhooks_with_other_triggers_receive_no_deadlines(
    cluster: RentedCluster, user: Caller
) -> None:
    listen(user, "budget")
    submit(user, finish_within="21.3h", expected_hours=20)
    cluster.settle()
    assert messages(cluster) == []


def test_later_deadline_starts_without_the_danger_of_the_earlier_one(
    cluster: RentedCluster, user: Caller
) -> None:
    listen(user)
    id = submit(user, finish_within="21.3h", expected_hours=20)
    cluster.settle()
    assert [message["deadline"]["state"] for message in messages(cluster)] == ["LAST_CHANCE"]
    for hours in (40, 21.3):
        deadline = (cluster.time + timedelta(hours=hours)).isoformat()
        user.done("PATCH", f"/api/v1/experiments/{id}", {"resources": {"deadline": deadline}})
        cluster.settle()
    assert [message["deadline"]["state"] for message in messages(cluster)] == ["LAST_CHANCE"] * 2


def states(cluster: RentedCluster) -> list[str]:
    return [message["deadline"]["state"] for message in messages(cluster)]


def test_paused_experiment_reports_its_deadline(cluster: RentedCluster, user: Caller) -> None:
    listen(user)
    id = submit(user, finish_within="22h", expected_hours=20)
    cluster.settle()
    user.post(f"/api/v1/experiments/{id}/pause")
    cluster.settle()
    assert states(cluster) == []
    for hours in (2, 21):
        cluster.pass_time(hours=hours)
        cluster.settle()
    assert states(cluster) == ["IN_DANGER", "MISSED"]
    cluster.pass_time(hours=1)
    cluster.settle()
    assert len(states(cluster)) == 2


def test_paused_experiment_with_a_deadline_keeps_no_schedule_running(
    cluster: RentedCluster, user: Caller
) -> None:
    create(user, resources={"slots_per_trial": 1, "finish_within": "22h", "expected_hours": 20})
    cluster.settle()
    assert look_if_due(cluster.api.ctx) is None


@pytest.mark.usefixtures("today")
def test_deadline_in_a_pool_of_own_machines_is_watched(
    cluster: RentedCluster, user: Caller
) -> None:
    config = cluster.api.ctx.config
    own = replace(config.resource_pools[0], pool_name="own", offers=(), sections=())
    cluster.api.ctx.config = replace(config, resource_pools=(*config.resource_pools, own))
    listen(user)
    id = submit(user, finish_within="3h", expected_hours=2, resource_pool="own")
    cluster.settle()
    assert shown(user, id)["probability"] > 0.9, shown(user, id)
    assert states(cluster) == []
    for hours in (1.5, 2):
        cluster.pass_time(hours=hours)
        cluster.settle()
    assert states(cluster) == ["IN_DANGER", "MISSED"]


def test_two_ticks_at_once_report_a_deadline_once(cluster: RentedCluster, user: Caller) -> None:
    listen(user)
    create(user, resources={"slots_per_trial": 1, "finish_within": "2h"})
    cluster.pass_time(hours=3)
    database = cluster.api.ctx.db
    other = threading.Thread(target=look_if_due, args=[cluster.api.ctx])
    with database.begin() as tx:
        provision.lock(tx)
        other.start()
        waiting = text(
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted"
        )
        assert eventually(lambda: tx.execute(waiting).scalar() == 1, 30)
        tx.execute(text("UPDATE deadlines SET state = 'MISSED'"))
    other.join(30)
    assert messages(cluster) == []
