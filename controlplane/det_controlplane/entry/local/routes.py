"""Routes that only a local cluster has: what `det deploy local` asks its own API."""

import hmac
from dataclasses import asdict

from det_controlplane.api.errors import Unauthenticated
from det_controlplane.api.http import Request, Response, bearer_token, json_response
from det_controlplane.api.router import Access, Route
from det_controlplane.entry.local.client import RECORDS_PATH, STATUS_PATH
from det_controlplane.services import stored_pools
from det_controlplane.services.cluster.first_start import joined_agents
from det_controlplane.services.context import Context
from det_controlplane.services.maintenance import gauges


def local_routes(ctx: Context) -> tuple[Route, ...]:
    """Return the routes of a local cluster: none without a bootstrap token, the credential of this machine's owner."""
    if not ctx.bootstrap_token:
        return ()
    return (
        Route("GET", STATUS_PATH, _status, Access.PUBLIC, "The agents of a local cluster"),
        Route("GET", RECORDS_PATH, _records, Access.PUBLIC, "The content of a local cluster"),
    )


def _require_owner(ctx: Context, request: Request) -> None:
    if not hmac.compare_digest(bearer_token(request).encode(), ctx.bootstrap_token.encode()):
        raise Unauthenticated("this path is for `det deploy local` on the cluster's own machine")


def _records(ctx: Context, request: Request) -> Response:
    _require_owner(ctx, request)
    return json_response(gauges.records(ctx))


def _status(ctx: Context, request: Request) -> Response:
    _require_owner(ctx, request)
    pools = [pool.pool_name for pool in stored_pools.current(ctx).config.resource_pools]
    return json_response(
        {
            "agents": [asdict(a) for a in joined_agents(ctx.db)],
            "pools": pools,
            "rented": asdict(gauges.rented(ctx)),
        }
    )
