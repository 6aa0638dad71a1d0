"""The place of one job equals its place in the whole queue, and a pass does not rewrite allocations if only numbers
change.
"""

from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.core.paging import Page
from det_controlplane.db.engine.database import Database
from det_controlplane.db.experiments import experiment_pages
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import actions, creation
from det_controlplane.services.maintenance import tick
from det_controlplane.services.queue import jobs, why
from sqlalchemy import text

from tests.support.searching import CLUSTER, OWNER, SINGLE, Agent, context

ALL = Page(limit=-1)
_ROWS = text("SELECT id, xmin::text FROM allocations WHERE state = 'QUEUED' ORDER BY id")
_DELAY = text(
    "UPDATE allocations SET not_before = now() + interval '1 hour' WHERE trial_id IN ("
    " SELECT id FROM trials WHERE experiment_id = :id)"
)


def submit(ctx: Context, more: str = "", slots: int = 1) -> int:
    resources = f"resources: {{slots_per_trial: {slots}{more}}}"
    experiment = creation.create(ctx, OWNER, creation.Submission(config=SINGLE + resources))
    assert experiment.experiment_id is not None
    return experiment.experiment_id


def place(ctx: Context, experiment_id: int) -> dict[str, Any] | None:
    with ctx.db.autocommit() as tx:
        experiment = experiment_pages.one(tx, experiment_id)
    assert experiment is not None
    return jobs.summary(ctx, experiment)


def places_of_queue(ctx: Context) -> list[int]:
    return [job["summary"]["jobsAhead"] for job in jobs.queue_of(ctx, "default", ALL).jobs]


@pytest.mark.parametrize("scheduler", ["priority", "round_robin", "fair_share"])
def test_experiment_has_the_same_place_as_in_its_queue(scheduler: str, database: Database) -> None:
    ctx = context(database)
    manager = {"type": "agent", "scheduler": {"type": scheduler}}
    ctx.config = load_cluster({**CLUSTER, "resource_manager": manager})
    Agent.joined(ctx)
    first, second, third, urgent = (submit(ctx, more) for more in ("", "", "", ", priority: 7"))
    before_pass = [place(ctx, id) for id in (first, second, third, urgent)]
    expected = {
        "priority": [1, 2, 3, 0], "round_robin": [0, 1, 2, 3], "fair_share": [-1] * 4
    }[scheduler]  # fmt: skip
    assert [p and p["jobsAhead"] for p in before_pass] == expected
    tick.run(ctx)
    assert sorted(places_of_queue(ctx)) == sorted(expected)


def test_jobs_that_left_the_queue_are_no_longer_counted(database: Database) -> None:
    ctx = context(database)
    first, second, third = submit(ctx), submit(ctx), submit(ctx)
    tick.run(ctx)
    actions.command(ctx, first, Command.KILL)
    with ctx.db.begin() as tx:
        tx.execute(_DELAY, {"id": second})
    tick.run(ctx)
    assert place(ctx, third) == {"state": "STATE_QUEUED", "jobsAhead": 0}
    assert place(ctx, second) == {"state": "STATE_QUEUED", "jobsAhead": -1}


@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize(
    ("scheduler", "places"),
    [
        ("priority", {"delayed": -1, "urgent": 0, "runs": 1, "first": 2, "second": 3}),
        ("round_robin", {"delayed": -1, "runs": 0, "first": 1, "second": 2, "urgent": 3}),
    ],
)
def test_queue_begins_with_delayed_jobs_and_has_the_order_of_its_scheduler(
    scheduler: str, places: dict[str, int], is_marked: bool, database: Database
) -> None:
    ctx = context(database)
    manager = {"type": "agent", "scheduler": {"type": scheduler}}
    ctx.config = load_cluster({**CLUSTER, "resource_manager": manager})
    Agent.joined(ctx)
    ids = {"runs": submit(ctx)}
    tick.run(ctx)
    ids |= {name: submit(ctx) for name in ("first", "delayed", "second")}
    ids["urgent"] = submit(ctx, ", priority: 7")
    with ctx.db.begin() as tx:
        tx.execute(_DELAY, {"id": ids["delayed"]})
        if not is_marked:  # the mark is only a faster way to the rows
            tx.execute(text("UPDATE jobs SET in_queue = false"))
    names = {str(id): name for name, id in ids.items()}
    queue = jobs.queue_of(ctx, "default", ALL).jobs
    ahead = {names[job["entityId"]]: job["summary"]["jobsAhead"] for job in queue}
    assert ahead == places
    assert list(ahead) == list(places)
    assert jobs.queue_of(ctx, "default", ALL, descending=True).jobs == queue[::-1]
    running = jobs.queue_of(ctx, "default", ALL, states=["SCHEDULED"]).jobs
    assert [names[job["entityId"]] for job in running] == ["runs"]
    assert jobs.queue_of(ctx, "default", ALL, within=[]).jobs == []


@pytest.mark.parametrize(
    ("page", "expected"),
    [(Page(1, 2), [1, 2]), (Page(-1, 1), [3]), (Page(9, 1), []), (Page(0, -2), [])],
)
def test_page_of_the_queue_has_its_jobs_and_the_total(
    page: Page, expected: list[int], database: Database
) -> None:
    ctx = context(database)
    ids = [submit(ctx) for _ in range(4)]
    part = jobs.queue_of(ctx, "default", page)
    assert [job["entityId"] for job in part.jobs] == [str(ids[n]) for n in expected]
    assert part.pagination["total"] == 4


def test_pass_does_not_rewrite_allocations_if_only_numbers_change(database: Database) -> None:
    ctx = context(database)
    Agent.joined(ctx, "a", slots=4)
    waiting = [submit(ctx, slots=4) for _ in range(3)]
    submit(ctx, slots=3)
    submit(ctx, ", priority: 1", slots=1)
    tick.run(ctx)
    sentence = why.of(ctx, "experiment", str(waiting[-1]))[0]["sentence"]
    with database.begin() as tx:
        rows = tx.execute(_ROWS).all()
    Agent.joined(ctx, "b", slots=3)
    submit(ctx, ", priority: 1", slots=2)
    tick.run(ctx)
    with database.begin() as tx:
        rows_after = tx.execute(_ROWS).all()
    assert why.of(ctx, "experiment", str(waiting[-1]))[0]["sentence"] != sentence
    assert {row.id: row.xmin for row in rows_after}.items() >= {
        row.id: row.xmin for row in rows if row.id in {r.id for r in rows_after}
    }.items()
