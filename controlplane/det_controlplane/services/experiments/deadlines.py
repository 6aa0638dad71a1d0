"""Deadlines of experiments: check them when they are set, and store them."""

import contextlib
from datetime import datetime, timedelta, timezone
from typing import Any

from det_controlplane.core.config import sizes
from det_controlplane.core.config.moments import format_hours, format_moment, parse_moment
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.core.provision.work_left import earliest_end
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments import experiments
from det_controlplane.db.machines import deadlines
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.experiments.live import LiveExperiment


def settle(ctx: Context, tx: Tx, config: dict[str, Any], pool: str) -> None:
    """Replace `finish_within` by the deadline, and refuse a deadline that cannot be met."""
    resources = config["resources"]
    span_s, now = resources.pop("finish_within", None), ctx.now()
    path = "resources.deadline" if span_s is None else "resources.finish_within"
    if span_s is not None:
        resources["deadline"] = format_moment(now + timedelta(seconds=span_s))
    if resources.get("deadline") is None:
        return
    problem = _fault(ctx, tx, parse_moment(resources["deadline"]), resources, pool, now)
    if problem:
        raise InvalidConfig([Problem(path, problem)])


def _fault(
    ctx: Context,
    tx: Tx,
    deadline: datetime,
    resources: dict[str, Any],
    pool: str,
    now: datetime,
) -> str:
    """Return why a deadline is refused, or an empty text."""
    expected_h = resources.get("expected_hours")
    settings = ctx.config.pool(pool)
    rents = settings is not None and bool(settings.offers)
    startup_h = deadlines.startup_h(tx, pool) if rents else 0.0
    earliest_s = earliest_end(now.timestamp(), expected_h, startup_h)
    earliest = datetime.fromtimestamp(earliest_s, timezone.utc)
    possible = f"the earliest possible time is {format_moment(earliest)}"
    without = "" if expected_h else ", without the training itself: set resources.expected_hours"
    if deadline <= now:
        return f"{format_moment(deadline)} is in the past; {possible}{without}"
    if deadline >= earliest:
        return ""
    left = format_hours((deadline - now).total_seconds() / 3600)
    return f"is {left} away, and {_need(expected_h, startup_h, rents)}; {possible}{without}"


def _need(expected_h: float | None, startup_h: float, rents: bool) -> str:
    """Return the time until the earliest end. Machines that the pool does not rent need no start."""
    if not rents:
        return f"it needs {expected_h:g} h of work and a reserve of 5 %"
    work = f"{expected_h:g} h of work, a reserve of 5 % and " if expected_h else ""
    return f"even machines on demand need {work}{format_hours(startup_h)} to start"


def store(tx: Tx, experiment_id: int, config: dict[str, Any]) -> None:
    """Store the deadline of a configuration, or remove the earlier one."""
    resources = config["resources"]
    deadline = resources.get("deadline")
    if deadline is None:
        deadlines.remove(tx, experiment_id)
    else:
        deadlines.put(tx, experiment_id, parse_moment(deadline), resources.get("expected_hours"))


def change(experiment: LiveExperiment, text: str) -> None:
    """Set the deadline of an experiment that has not ended to a time or a duration from now. `none` removes it."""
    row, tx = experiment.row, experiment.tx
    if row.state.terminal:
        raise Missing(f"experiment {row.id} has ended: it needs no deadline")
    config = experiments.config(tx, row.id)
    resources = {k: v for k, v in config["resources"].items() if k != "deadline"}
    if text != "none":
        resources["deadline"] = _normalized(text, experiment.now)
        if parse_moment(resources["deadline"]) <= experiment.now:
            raise Invalid(f"deadline {resources['deadline']} is in the past; set a later one")
    experiments.change(tx, row.id, config=config | {"resources": resources})
    store(tx, row.id, {"resources": resources})
    experiment.change.queue_changed(row.pool)


def _normalized(text: str, now: datetime) -> str:
    with contextlib.suppress(ValueError, OverflowError):
        return format_moment(now + timedelta(seconds=sizes.parse_duration_s(text)))
    try:
        return format_moment(parse_moment(text))
    except (ValueError, OverflowError) as error:
        raise Invalid(f"deadline {error}, or a duration such as 3h, or `none`") from error
