"""The app on AWS Lambda: Chalice packages it and runs the schedule and the migration, requests bypass its router.

Chalice's own routing answers 400 to requests without an Accept header and hides the path that was
asked for; so the greedy route below exists for packaging alone."""

import functools
import logging
import os
from typing import Any

from chalice import Chalice, Rate

from det_controlplane.adapters.inline_waker import InlineWaker
from det_controlplane.api.app import App
from det_controlplane.entry.aws.events import is_http, respond
from det_controlplane.entry.build import build_context, build_function
from det_controlplane.entry.settings import from_environment

log = logging.getLogger("det")

_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]


waker = InlineWaker()


@functools.cache
def built() -> App:
    """Once a process: at its first event, when its environment is complete."""
    log.setLevel(logging.INFO)
    settings = from_environment(os.environ)
    return build_function(build_context(settings, waker))


def answered(event: dict[str, Any], remaining_s: float) -> dict[str, Any]:
    """Answer a request; what it changed for the queue is decided before the process freezes."""
    answer = respond(built(), event, remaining_s)
    if "schedule" in waker.take():
        try:
            _tick()
        except Exception:
            # The request itself is done and stored; the next tick does what this one did not.
            log.exception("the tick after %s failed", event.get("path") or event.get("rawPath"))
    return answer


def _tick() -> float | None:
    # Requests that change nothing in a queue do without the scheduler.
    from det_controlplane.services.maintenance import tick

    return tick.run(built().ctx)


class ControlPlane(Chalice):  # type: ignore[misc]
    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        if is_http(event):
            return answered(event, context.get_remaining_time_in_millis() / 1000)
        return super().__call__(event, context)


app = ControlPlane(app_name="determined-serverless")
app.api.binary_types = ["*/*"]


@app.route("/", methods=_ALL_METHODS)  # type: ignore[untyped-decorator]
@app.route("/{proxy+}", methods=_ALL_METHODS)  # type: ignore[untyped-decorator]
def everything() -> None:
    """Never called: `ControlPlane` answers first."""


@app.schedule(Rate(1, unit=Rate.MINUTES))  # type: ignore[untyped-decorator]
def tick(event: Any) -> dict[str, float | None]:
    """The safety net: what no wake has started, and what has come due."""
    return {"next_due_s": _tick()}


@app.lambda_function()  # type: ignore[untyped-decorator]
def migrate(event: Any, context: Any) -> list[str]:
    """Bring the database up to date: a deployment invokes this before its requests reach the new code."""
    from det_controlplane.db.migrate import migrate as upgrade

    return list(upgrade(from_environment(os.environ).database_url))
