"""The image's program: DET_ROLE says which part of the control plane this process is.

`api` answers requests and starts the others by calling them, `tick` and `provision` work when they are called. `import`
runs one import as a job. `relay`
carries traffic to tasks; there is one such process at most, which agents dial and `api` passes requests on to.
Without a role, one process does all.
"""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from det_controlplane.adapters.cloud_run import SchedulerJobs, Services
from det_controlplane.adapters.notifier import LocalNotifier, RecheckingNotifier
from det_controlplane.api.app import App
from det_controlplane.db.engine.connections import must_answer
from det_controlplane.db.engine.errors import BadUrl, DatabaseDown
from det_controlplane.db.engine.migrate import MigrationError
from det_controlplane.entry.aws_addresses import resolve_by_ipv6
from det_controlplane.entry.build import build_app, build_context, build_relay
from det_controlplane.entry.container.relay_end import (
    RENEWED,
    deployed,
    ending_when_idle,
    ending_when_replaced,
    version_of,
)
from det_controlplane.entry.container.waking import RemindingApp, checking_schedules, waking
from det_controlplane.entry.container.worker import Worker, server
from det_controlplane.entry.logs import log_to_stderr
from det_controlplane.entry.scheduled_work import Clock, SetSchedules, Turn, provisioning, ticking
from det_controlplane.entry.server import api_server
from det_controlplane.entry.settings import BadSettings, Settings, from_environment
from det_controlplane.services.context import Context

log = logging.getLogger("det.container")

# Other processes do not wake the polls of this one, so polls check the database regularly.
RECHECK_S = 2.0
# Below the time limit of the startup probe.
_PROBED_S = 4.0
_TOPICS = {
    "schedule": "DET_TICK_URL",
    "provision": "DET_PROVISION_URL",
    "webhooks": "DET_TICK_URL",
}


def main() -> int:
    resolve_by_ipv6(os.environ)
    # Uvicorn sends itself the signal again after its last request. This is not a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    role = os.environ.get("DET_ROLE", "")
    serve = {
        "": api_server.serve_alone,
        "api": _api,
        "relay": _relay,
        "tick": _tick,
        "provision": _provision,
        "import": _import,
    }
    try:
        log_to_stderr(os.environ)
        if role not in serve:
            roles = ", ".join(name for name in serve if name)
            raise BadSettings(f"DET_ROLE is {role!r}: give {roles}, or nothing for all in one")
        serve[role]()
    except (BadSettings, BadUrl, MigrationError, DatabaseDown) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


def _import() -> None:
    """Import another cluster, as a job of `det deploy gcp import`."""
    from det_controlplane.entry.importing import beside

    settings = from_environment(os.environ)
    api_server.migrate_when_up(settings.database_url)
    sys.exit(beside.run(json.loads(os.environ["DET_IMPORT"]), settings.database_url))


def services(environment: Mapping[str, str]) -> Services:
    """Return the other services that the environment names."""
    return Services({topic: environment[n] for topic, n in _TOPICS.items() if environment.get(n)})


def schedules(environment: Mapping[str, str]) -> SetSchedules | None:
    names = [name for name in environment.get("DET_SCHEDULES", "").split(",") if name]
    return SchedulerJobs(names).switch if names else None


def _relay() -> None:
    """Run a relay, which only carries traffic to tasks. Other processes find it at DET_RELAY_URL, so this process
    ignores that variable."""

    settings = replace(from_environment(os.environ), relay_url="", initial_user_password=None)
    renewed = threading.Event()

    @contextmanager
    def beside(ctx: Context, _: LocalNotifier) -> Iterator[None]:
        idle, function = settings.relay_idle_s, settings.relay_function
        with ExitStack() as stack:
            if idle:
                stack.enter_context(ending_when_idle(ctx, idle))
            if function:
                look, deployment = partial(deployed, function), settings.relay_deployed
                own = version_of(deployment) if deployment else ""
                stack.enter_context(ending_when_replaced(ctx, look, renewed.set, own))
            yield

    try:
        _serve(settings, beside, alone=True, fronted=True, app_of=build_relay)
    finally:
        # Whatever a signal ended it with: its machine stops after an end for good.
        if renewed.is_set():
            sys.exit(RENEWED)


def _api() -> None:
    """Run the API. Other services do the work that requests wake. Several such processes may run."""
    others, set_schedules = services(os.environ), schedules(os.environ)

    def beside(ctx: Context, notifier: LocalNotifier) -> AbstractContextManager[None]:
        return waking(ctx, notifier, others, set_schedules)

    def app_of(ctx: Context) -> App:
        return RemindingApp(ctx, build_app(ctx).router)

    _serve(from_environment(os.environ), beside, alone=False, app_of=app_of)


def _serve(
    settings: Settings,
    beside: api_server.Beside,
    *,
    alone: bool,
    fronted: bool = False,
    app_of: Callable[[Context], App],
) -> None:
    api_server.migrate_when_up(settings.database_url)
    listening, notifier = api_server.listening_socket(), RecheckingNotifier(RECHECK_S)
    api_server.serve(
        settings, listening, notifier, beside, alone=alone, fronted=fronted, app_of=app_of
    )


def _tick() -> None:
    set_schedules = schedules(os.environ)

    def make(ctx: Context) -> Turn:
        turn = ticking(ctx, set_schedules)
        return checking_schedules(ctx, turn, set_schedules) if set_schedules else turn

    _work(make)


def _provision() -> None:
    _work(provisioning)


def _work(make: Callable[[Context], Turn]) -> None:
    """Take a turn at each call until SIGTERM."""
    settings = from_environment(os.environ)
    built: list[Turn] = []

    def turn(clock: Clock) -> float | None:
        # At the first call: the API may be bringing the database up to date while this process starts.
        if not built:
            built.append(make(build_context(settings, services(os.environ))))
        return built[0](clock)

    worker = Worker(turn)
    ready = partial(must_answer, settings.database_url, _PROBED_S)
    http_server = server(worker, api_server.listening_socket(), ready)

    def stop(*_: object) -> None:
        worker.stop()
        threading.Thread(target=http_server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    log.info("ready")
    with http_server:
        http_server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    sys.exit(main())
