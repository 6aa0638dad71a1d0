"""An agent's silence does not count during outages of the control plane."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, pass_time

_AGENT = text("SELECT state::text AS state FROM agents")
_AGENT_OF_THE_CONTAINER = text("SELECT state::text AS state FROM agents WHERE id = 'agent'")
_SET_REACHED_AT = text("UPDATE cluster SET reached_at = :at")
_LIVE = text("SELECT count(*) AS live FROM containers WHERE state <> 'TERMINATED'")
_KILL_AT = text("SELECT kill_at FROM allocations")
_SET_KILL_AT = text("UPDATE allocations SET kill_at = :at")
_SET_IDLE = text("UPDATE tasks SET idle_timeout_s = 600, active_at = :now")
_ACTIVE_AT = text("SELECT active_at FROM tasks")


def one(ctx: Context, statement: Any) -> Any:
    return ctx.db.read(statement)[0][0]


def working(ctx: Context) -> tuple[Agent, Report]:
    """Return an agent with a running container."""
    agent = Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    (order,) = agent.poll()
    report = Report(order["id"], order["epoch"], ContainerState.RUNNING)
    agent.poll(report)
    return agent, report


def test_a_silent_agent_is_suspect_after_its_lease_and_lost_after_the_wait(
    ctx: Context, clock: list[datetime]
) -> None:
    working(ctx)
    pass_time(ctx, clock, 25)
    assert one(ctx, _AGENT) == "JOINED"
    pass_time(ctx, clock, 5)
    assert one(ctx, _AGENT) == "SUSPECT"
    pass_time(ctx, clock, 20)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)
    pass_time(ctx, clock, 5)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("LOST", 0)


def test_the_first_tick_after_downtime_restarts_lease_and_wait(
    ctx: Context, clock: list[datetime]
) -> None:
    agent, report = working(ctx)
    clock[0] += timedelta(hours=24)
    tick.run(ctx)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)
    pass_time(ctx, clock, 50)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)
    agent.poll(report)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("JOINED", 1)


def test_an_agent_that_stays_silent_after_downtime_is_lost(
    ctx: Context, clock: list[datetime]
) -> None:
    working(ctx)
    clock[0] += timedelta(minutes=10)
    pass_time(ctx, clock, 65)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("LOST", 0)


def test_an_outage_of_40_seconds_restarts_the_wait_of_a_suspect_agent(
    ctx: Context, clock: list[datetime]
) -> None:
    working(ctx)
    pass_time(ctx, clock, 35)
    clock[0] += timedelta(seconds=40)
    tick.run(ctx)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)
    pass_time(ctx, clock, 50)
    assert one(ctx, _AGENT) == "SUSPECT"
    pass_time(ctx, clock, 5)
    assert one(ctx, _AGENT) == "LOST"


def test_the_time_of_a_tick_by_a_wrong_clock_is_replaced(
    ctx: Context, clock: list[datetime]
) -> None:
    clock[0] += timedelta(days=1)
    tick.run(ctx)
    clock[0] -= timedelta(days=1)
    working(ctx)
    clock[0] += timedelta(minutes=10)
    tick.run(ctx)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)


def test_agent_is_not_lost_by_a_stall_of_65_seconds(ctx: Context, clock: list[datetime]) -> None:
    working(ctx)
    pass_time(ctx, clock, 5)
    clock[0] += timedelta(seconds=65)
    tick.run(ctx)
    assert one(ctx, _AGENT) == "SUSPECT"
    pass_time(ctx, clock, 50)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)


def test_a_stall_restarts_the_wait_of_a_suspect_agent(ctx: Context, clock: list[datetime]) -> None:
    working(ctx)
    pass_time(ctx, clock, 40)
    assert one(ctx, _AGENT) == "SUSPECT"
    clock[0] += timedelta(seconds=25)
    tick.run(ctx)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)


def test_outage_at_the_end_of_a_lease_renews_it(ctx: Context, clock: list[datetime]) -> None:
    """Ticks end before they would watch the lease, and begin again a moment after its end."""
    working(ctx)
    pass_time(ctx, clock, 10)
    clock[0] += timedelta(seconds=23)
    tick.run(ctx)
    assert one(ctx, _AGENT) == "SUSPECT"
    pass_time(ctx, clock, 50)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)
    pass_time(ctx, clock, 5)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("LOST", 0)


def test_outage_during_most_of_a_lease_renews_it(ctx: Context, clock: list[datetime]) -> None:
    """Ticks begin again a moment before the lease ends."""
    working(ctx)
    clock[0] += timedelta(seconds=28)
    tick.run(ctx)
    pass_time(ctx, clock, 50)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)
    pass_time(ctx, clock, 5)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("LOST", 0)


def test_a_tick_is_due_before_a_lease_ends(ctx: Context, clock: list[datetime]) -> None:
    working(ctx)
    clock[0] += timedelta(seconds=12)
    assert tick.run(ctx) == 13
    clock[0] += timedelta(seconds=13)
    assert tick.run(ctx) == 5


def test_tick_is_due_every_15_seconds_while_agents_are_joined(
    ctx: Context, clock: list[datetime]
) -> None:
    agent, report = working(ctx)
    for _ in range(3):
        assert tick.run(ctx) == 15
        clock[0] += timedelta(seconds=15)
        agent.poll(report)


def test_tick_is_due_within_5_seconds_while_an_agent_is_suspect(
    ctx: Context, clock: list[datetime]
) -> None:
    working(ctx)
    assert (tick.run(ctx) or 0) > 10
    pass_time(ctx, clock, 30)
    assert 0 < (tick.run(ctx) or 0) <= 5


def test_kill_deadlines_are_extended_after_downtime(ctx: Context, clock: list[datetime]) -> None:
    working(ctx)
    with ctx.db.begin() as tx:
        tx.execute(_SET_KILL_AT, {"at": clock[0] + timedelta(seconds=60)})
    clock[0] += timedelta(hours=1)
    tick.run(ctx)
    assert one(ctx, _KILL_AT) == clock[0] + timedelta(seconds=30)


def test_idle_times_restart_after_downtime(ctx: Context, clock: list[datetime]) -> None:
    working(ctx)
    with ctx.db.begin() as tx:
        tx.execute(_SET_IDLE, {"now": clock[0]})
    clock[0] += timedelta(hours=1)
    tick.run(ctx)
    assert one(ctx, _ACTIVE_AT) == clock[0]


class Api:
    """An API that ticks can reach or not."""

    def __init__(self) -> None:
        self.answers = True
        self.probes = 0

    def reach(self) -> bool:
        self.probes += 1
        return self.answers


@pytest.fixture
def api(ctx: Context) -> Api:
    api = Api()
    ctx.host.reach_api = api.reach
    return api


def test_no_agent_is_lost_while_only_the_api_is_down(
    ctx: Context, clock: list[datetime], api: Api
) -> None:
    agent, report = working(ctx)
    api.answers = False
    pass_time(ctx, clock, 3600)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("SUSPECT", 1)
    api.answers = True
    pass_time(ctx, clock, 45)
    agent.poll(report)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("JOINED", 1)


def test_a_silent_agent_is_lost_if_the_api_answers(
    ctx: Context, clock: list[datetime], api: Api
) -> None:
    working(ctx)
    pass_time(ctx, clock, 55)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("LOST", 0)


def test_a_silent_agent_is_lost_while_another_agent_polls(
    ctx: Context, clock: list[datetime], api: Api
) -> None:
    """A tick may be unable to reach an API that agents reach."""
    working(ctx)
    other = Agent.joined(ctx, "other")
    api.answers = False
    for _ in range(11):
        pass_time(ctx, clock, 5)
        other.poll()
    assert one(ctx, _AGENT_OF_THE_CONTAINER) == "LOST"


def test_a_silent_agent_is_lost_if_ticks_have_never_reached_the_api(
    ctx: Context, clock: list[datetime], api: Api
) -> None:
    api.answers = False
    working(ctx)
    pass_time(ctx, clock, 55)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("LOST", 0)


def test_an_agent_is_lost_if_the_api_has_not_answered_for_25_hours(
    ctx: Context, clock: list[datetime], api: Api
) -> None:
    working(ctx)
    api.answers = False
    pass_time(ctx, clock, 120)
    with ctx.db.begin() as tx:
        tx.execute(_SET_REACHED_AT, {"at": clock[0] - timedelta(hours=25)})
    pass_time(ctx, clock, 60)
    assert (one(ctx, _AGENT), one(ctx, _LIVE)) == ("LOST", 0)


def test_kills_are_postponed_while_only_the_api_is_down(
    ctx: Context, clock: list[datetime], api: Api
) -> None:
    working(ctx)
    api.answers = False
    with ctx.db.begin() as tx:
        tx.execute(_SET_KILL_AT, {"at": clock[0] + timedelta(seconds=60)})
    pass_time(ctx, clock, 180)
    assert one(ctx, _LIVE) == 1
    assert one(ctx, _KILL_AT) > clock[0]


def test_ticks_send_one_probe_an_hour_while_agents_poll(
    ctx: Context, clock: list[datetime], api: Api
) -> None:
    agent, report = working(ctx)
    for _ in range(60):
        pass_time(ctx, clock, 20)
        agent.poll(report)
    assert api.probes == 1


def test_ticks_send_no_probe_without_agents(ctx: Context, clock: list[datetime], api: Api) -> None:
    pass_time(ctx, clock, 120)
    assert api.probes == 0
