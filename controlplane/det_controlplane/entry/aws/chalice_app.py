"""The functions on AWS Lambda: `api` answers requests, `tick` decides, `provision` calls EC2, `migrate` upgrades.

Chalice packages them. Its own routing answers 400 to requests without an Accept header and hides the path that was
asked for; so the greedy route below exists for packaging alone, and requests bypass it."""

import functools
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from chalice import Chalice

from det_controlplane.adapters.lambda_functions import LambdaWaker, Schedules
from det_controlplane.api.app import App
from det_controlplane.entry.aws.events import is_http, respond
from det_controlplane.entry.build import build_context, build_function
from det_controlplane.entry.settings import from_environment

log = logging.getLogger("det")

_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
# Longer than this a function does not wait for the next due time: the schedule calls it again.
_LONGEST_PAUSE_S = 5.0
_RESERVE_S = 15.0

waker = LambdaWaker(
    {
        topic: os.environ[name]
        for topic, name in (
            ("schedule", "DET_TICK_FUNCTION"),
            ("provision", "DET_PROVISION_FUNCTION"),
        )
        if os.environ.get(name)
    }
)


@functools.cache
def built() -> App:
    """Once a process: at its first event, when its environment is complete."""
    log.setLevel(logging.INFO)
    settings = from_environment(os.environ)
    return build_function(build_context(settings, waker))


class ControlPlane(Chalice):  # type: ignore[misc]
    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        if not is_http(event):
            return super().__call__(event, context)
        answer = respond(built(), event, context.get_remaining_time_in_millis() / 1000)
        # The process freezes with its answer: what the request woke is started before.
        waker.flush()
        return answer


app = ControlPlane(app_name="determined-serverless")
app.api.binary_types = ["*/*"]


@app.route("/", methods=_ALL_METHODS)  # type: ignore[untyped-decorator]
@app.route("/{proxy+}", methods=_ALL_METHODS)  # type: ignore[untyped-decorator]
def everything() -> None:
    """Never called: `ControlPlane` answers first."""


@app.lambda_function()  # type: ignore[untyped-decorator]
def tick(event: Any, context: Any) -> dict[str, float | None]:
    """Schedule, decide on machines and do what has come due; then switch the schedules by whether anything is left."""
    from det_controlplane.services.maintenance import activity
    from det_controlplane.services.maintenance import tick as ticking

    ctx = built().ctx
    due_s = _while_due(lambda: ticking.run(ctx), context)
    names = [name for name in os.environ.get("DET_SCHEDULES", "").split(",") if name]
    if names:
        activity.switch(ctx, Schedules(names).switch, idle=due_s is None)
    waker.flush()
    return {"next_due_s": due_s}


@app.lambda_function()  # type: ignore[untyped-decorator]
def provision(event: Any, context: Any) -> dict[str, float | None]:
    """Call the clouds: the only function that may start and end machines."""
    from det_controlplane.entry.clouds import clouds_of
    from det_controlplane.services.machines import calling

    ctx = built().ctx
    clouds = clouds_of(ctx.config)
    due_s = _while_due(lambda: calling.run(ctx, clouds), context) if clouds else None
    waker.flush()
    return {"next_due_s": due_s}


def _while_due(act: Callable[[], float | None], context: Any) -> float | None:
    """Act until nothing is due soon, or the function's time is nearly over."""
    while True:
        due_s = act()
        if due_s is None or due_s > _LONGEST_PAUSE_S:
            return due_s
        if context.get_remaining_time_in_millis() / 1000 - due_s < _RESERVE_S:
            return due_s
        time.sleep(max(due_s, 0.05))


@app.lambda_function()  # type: ignore[untyped-decorator]
def migrate(event: Any, context: Any) -> list[str]:
    """Bring the database up to date: a deployment invokes this before its requests reach the new code."""
    from det_controlplane.db.migrate import migrate as upgrade

    return list(upgrade(from_environment(os.environ).database_url))
