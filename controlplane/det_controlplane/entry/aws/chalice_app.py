"""The functions on AWS Lambda: `api` answers requests, `tick` decides, `provision` calls EC2, `migrate` upgrades.

Chalice packages them. Its own routing answers 400 to requests without an Accept header and hides the path that was
asked for; so the greedy route below exists for packaging alone, and requests bypass it."""

import functools
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from chalice import Chalice

from det_controlplane.adapters import issuers
from det_controlplane.adapters.ec2_relay import starter_of
from det_controlplane.adapters.lambda_functions import LambdaWaker, Schedules
from det_controlplane.adapters.otlp_spans import spans_of
from det_controlplane.adapters.web_courier import WebCourier
from det_controlplane.api import routes
from det_controlplane.api.app import App
from det_controlplane.api.http import Response
from det_controlplane.db.engine.errors import DatabaseDown
from det_controlplane.entry import scheduled_work
from det_controlplane.entry.aws.events import is_http, refuse, respond
from det_controlplane.entry.aws_addresses import resolve_by_ipv6
from det_controlplane.entry.build import build_context, build_function, cluster_config
from det_controlplane.entry.logs import format_lambda_log
from det_controlplane.entry.settings import from_environment
from det_controlplane.ports.courier import Unsent
from det_controlplane.services.maintenance.reminding import Reminder

log = logging.getLogger("det")

_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]

waker = LambdaWaker(
    {
        topic: os.environ[name]
        for topic, name in (
            ("schedule", "DET_TICK_FUNCTION"),
            ("provision", "DET_PROVISION_FUNCTION"),
            ("webhooks", "DET_TICK_FUNCTION"),
        )
        if os.environ.get(name)
    }
)

reminder = Reminder()


@functools.cache
def built() -> App:
    """Build the app once a process: at its first event, when its environment is complete."""
    log.setLevel(logging.INFO)
    settings = from_environment(os.environ)
    return build_function(build_context(settings, waker))


def load_for_snapshot(environment: Mapping[str, str]) -> None:
    """Import the modules of requests before SnapStart takes a snapshot of this process.

    The application is created after the snapshot, because a snapshot cannot keep database connections alive."""
    if environment.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
        routes.every()
        config = cluster_config(from_environment(environment))
        spans_of(environment, config.telemetry)  # loads OpenTelemetry if telemetry is on


format_lambda_log(os.environ)
resolve_by_ipv6(os.environ)
load_for_snapshot(os.environ)


def _identity() -> Response | None:
    """Return the answer to `/info`, which clients ask first, where the deployment names the cluster."""
    settings = from_environment(os.environ)
    if not settings.cluster_id:
        return None
    from det_controlplane.api.cluster import identity

    return identity(settings.cluster_id, cluster_config(settings).cluster_name)


def _is_sign_of_life(event: Any) -> bool:
    """Return whether an event is one by which a schedule keeps Lambda from putting an idle function away."""
    return isinstance(event, Mapping) and event.get("source") == "sign-of-life"


def _stays_ready(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a handler that does its work at every event except health checks, which must not wake the database."""

    @functools.wraps(work)
    def handle(event: Any, context: Any) -> Any:
        return None if _is_sign_of_life(event) else work(event, context)

    return handle


class ControlPlane(Chalice):  # type: ignore[misc]
    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        if _is_sign_of_life(event):
            return None
        if not is_http(event):
            return super().__call__(event, context)
        try:
            app = built()
        except DatabaseDown as e:
            return refuse(event, e, _identity())
        before = app.ctx.db.uses
        answer = respond(app, event, context.get_remaining_time_in_millis() / 1000)
        if app.ctx.db.uses > before:  # a database that sleeps is not woken for this
            reminder.look(app.ctx)
        # The process freezes after its answer, so start the woken functions before.
        waker.flush()
        app.ctx.db.rest()
        return answer


app = ControlPlane(app_name="determined-serverless")
app.api.binary_types = ["*/*"]


@app.route("/", methods=_ALL_METHODS)  # type: ignore[untyped-decorator]
@app.route("/{proxy+}", methods=_ALL_METHODS)  # type: ignore[untyped-decorator]
def everything() -> None:
    """Stand for every route: `ControlPlane` answers before Chalice calls this."""


@app.lambda_function()  # type: ignore[untyped-decorator]
@_stays_ready
def tick(event: Any, context: Any) -> dict[str, float | None]:
    names = [name for name in os.environ.get("DET_SCHEDULES", "").split(",") if name]
    return _turn(
        scheduled_work.ticking(built().ctx, Schedules(names).switch if names else None), context
    )


@app.lambda_function()  # type: ignore[untyped-decorator]
@_stays_ready
def provision(event: Any, context: Any) -> dict[str, float | None]:
    return _turn(scheduled_work.provisioning(built().ctx, starter_of(os.environ)), context)


def _turn(turn: scheduled_work.Turn, context: Any) -> dict[str, float | None]:
    due_s = turn(scheduled_work.Clock(lambda: context.get_remaining_time_in_millis() / 1000))
    waker.flush()
    return {"next_due_s": due_s}


@app.lambda_function()  # type: ignore[untyped-decorator]
def keys(event: Any, context: Any) -> Any:
    """Ask an issuer of tokens, or post a message of a webhook.

    Few of these addresses are reached by IPv6, so this runs outside the network of the others."""
    if "issuer" not in event:
        return _send_webhook(event)
    issuer = str(event["issuer"])
    if "form" in event:
        secret = event["secret"]
        return issuers.post_form(
            issuer, event["url"], event["form"], tuple(secret) if secret else None
        )
    return issuers.describe(issuer) if event.get("describe") else issuers.fetch_keys(issuer)


def _send_webhook(event: Any) -> dict[str, Any]:
    """Check the address of a webhook, or post a message to it."""
    courier = WebCourier()
    try:
        if "check" in event:
            courier.check(str(event["check"]))
        else:
            courier.post(str(event["post"]), str(event["body"]).encode(), event["headers"])
    except Unsent as e:
        return {"unsent": str(e), "forever": e.forever}
    return {}


@app.lambda_function()  # type: ignore[untyped-decorator]
@_stays_ready
def migrate(event: Any, context: Any) -> list[str] | dict[str, Any]:
    """Migrate the database: a deployment invokes this before its requests reach the new code.

    `det deploy aws import` also sends its requests here, because this function has the longest time limit."""
    from det_controlplane.db.engine.migrate import migrate as upgrade

    settings = from_environment(os.environ)
    applied = list(upgrade(settings.database_url, wake_s=3 * settings.db_wake_s))
    if not isinstance(event, dict) or "import" not in event:
        return applied
    from det_controlplane.entry.importing import beside

    return beside.run_slice(event["import"], settings.database_url)
