"""The API and the tick in one process, by uvicorn: `python -m det_controlplane.entry.server.api_server`."""

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import uvicorn

from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.app import App
from det_controlplane.db.engine.errors import BadUrl, DatabaseDown
from det_controlplane.db.engine.migrate import MigrationError, migrate
from det_controlplane.entry.build import build_app, build_context
from det_controlplane.entry.clouds import Adapters
from det_controlplane.entry.local.client import SAYS
from det_controlplane.entry.local.routes import local_routes
from det_controlplane.entry.logs import log_to_stderr
from det_controlplane.entry.scheduled_work import call_clouds
from det_controlplane.entry.server.asgi import AsgiApp, last_hop, peer_address
from det_controlplane.entry.server.cloud_run import chunked_when_large
from det_controlplane.entry.server.handshakes import HttpsServer, Server
from det_controlplane.entry.server.protocol import (
    most_connections,
    protocols,
)
from det_controlplane.entry.server.tick_loop import SHORT_REST_S, TickLoop
from det_controlplane.entry.settings import BadSettings, Settings, from_environment
from det_controlplane.services.context import Context
from det_controlplane.services.machines.places import providers_left
from det_controlplane.services.maintenance import housekeeping, tick
from det_controlplane.services.trials import start_traces
from det_controlplane.services.use_case import WEBHOOKS_TOPIC
from det_controlplane.services.webhooks import delivery

log = logging.getLogger("det.api")

LISTEN_FD = "DET_LISTEN_FD"
DIE_WITH_PARENT = "DET_DIE_WITH_PARENT"
_DATABASE_WAIT_S = 90.0
_GRACE_S = 3


Beside = Callable[[Context, LocalNotifier], AbstractContextManager[None]]


def main() -> int:
    try:
        log_to_stderr(os.environ)
        serve_alone()
    except (BadSettings, BadUrl, MigrationError, DatabaseDown) as e:
        print(f"{SAYS}{e}", file=sys.stderr)
        return 1
    return 0


def serve_alone() -> None:
    """Upgrade the database, then serve as the only process of a cluster until SIGTERM."""
    settings = from_environment(os.environ)
    migrate_when_up(settings.database_url)
    serve(settings, listening_socket(), LocalNotifier(), loops)


@contextmanager
def loops(ctx: Context, notifier: LocalNotifier) -> Iterator[None]:
    """Run the tick and the calls of clouds in this process."""
    housekeeping.seal_earlier_secrets(ctx)
    loop = TickLoop(lambda: tick.run(ctx))
    notifier.on("schedule", loop.wake)

    adapters = Adapters()
    adapters.make(ctx.config, providers_left(ctx))  # a wrong configuration ends the start
    renting = TickLoop(lambda: call_clouds(ctx, adapters))
    notifier.on("provision", renting.wake)
    # A slow target of a webhook delays no other work.
    webhook_loop = TickLoop(lambda: delivery.run(ctx), longest_rest_s=SHORT_REST_S)
    notifier.on(WEBHOOKS_TOPIC, webhook_loop.wake)
    # A collector of traces that does not answer delays no other work, either.
    tracing = TickLoop(lambda: start_traces.send_due(ctx))
    notifier.on("schedule", tracing.wake)
    with ExitStack() as running:
        running.enter_context(loop.running())
        running.enter_context(webhook_loop.running())
        running.enter_context(renting.running())
        if ctx.spans is not None:
            running.enter_context(tracing.running())
        yield


def serve(
    settings: Settings,
    listening: socket.socket,
    notifier: LocalNotifier,
    beside: Beside,
    *,
    alone: bool = True,
    fronted: bool = False,
    app_of: Callable[[Context], App] | None = None,
) -> None:
    """Serve until SIGTERM, together with the loops beside the requests. The default app is the whole API.

    `alone`: no other process has this address, so agents and clients connect here for traffic to tasks. `fronted`:
    connections come from the API and from CDNs and share their addresses, so they are not counted by address."""
    public = not ip_address(listening.getsockname()[0]).is_loopback
    ctx = build_context(replace(settings, public=public), notifier)
    ctx.host.carries_traffic = alone and not settings.relay_url
    if fronted:
        ctx.config = replace(ctx.config, max_connections_per_address=0)

    @contextmanager
    def background() -> Iterator[None]:
        with beside(ctx, notifier):
            yield
        ctx.db.dispose()

    inner_app = app_of(ctx) if app_of else build_app(ctx, *local_routes(ctx))
    # Cloud Run sets this, and lets connections come from its front end only.
    on_cloud_run = "K_SERVICE" in os.environ
    address_of = last_hop if on_cloud_run else peer_address
    app = AsgiApp(
        inner_app, notifier, background, address_of=address_of, relays=ctx.host.carries_traffic
    )
    config = uvicorn.Config(
        chunked_when_large(app) if on_cloud_run else app,
        lifespan="on",
        ssl_certfile=settings.tls_cert or None,
        ssl_keyfile=settings.tls_key or None,
        # All connections to Cloud Run's containers are of its front end.
        **uvicorn_settings(0 if on_cloud_run else ctx.config.max_connections_per_address),
    )
    server = (HttpsServer if settings.tls_cert else Server)(config, app.end)
    if DIE_WITH_PARENT in os.environ:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    # Imported modules stay in memory, so the garbage collector can skip them.
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    server.run(sockets=[listening])


def uvicorn_settings(most_of_address: int = 0) -> dict[str, Any]:
    """Return uvicorn's settings for connections. `most_of_address` limits the connections of one address; 0 means no
    limit."""
    http, websockets = protocols(most_of_address)
    return {
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,  # anybody may send them
        "server_header": False,
        "ws": websockets,
        # Large messages are compressed already.
        "ws_per_message_deflate": False,
        "http": http,
        "limit_concurrency": most_connections(),
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": _GRACE_S,
    }


def listening_socket() -> socket.socket:
    """Return the socket that a supervisor passed, so that connections wait while this process restarts.

    asyncio sets TCP_NODELAY on accepted connections only if the protocol is named."""
    fd = int(os.environ.get(LISTEN_FD, "-1"))
    if fd >= 0:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=fd)
    return listen(os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8080")))


def listen(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    listening.listen(512)
    return listening


def migrate_when_up(database_url: str) -> None:
    """Migrate once the database answers, as it may be starting beside this process."""
    limit = time.monotonic() + _DATABASE_WAIT_S
    while True:
        try:
            applied = migrate(database_url)
        except DatabaseDown:
            if time.monotonic() > limit:
                raise
            time.sleep(0.02)
        else:
            for name in applied:
                log.info("applied migration %s", name)
            return


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
