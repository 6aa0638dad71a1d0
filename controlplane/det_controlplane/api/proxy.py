"""Traffic to tasks, on a host that does not carry it: it says which one does."""

from urllib.parse import urlencode

from det_controlplane.api.errors import Unimplemented
from det_controlplane.api.http import Answer, Request, Response
from det_controlplane.api.router import Access, Route
from det_controlplane.services.context import Context


def elsewhere(ctx: Context, request: Request) -> Answer:
    if not ctx.relay_url:
        raise Unimplemented(
            "this API does not carry traffic to tasks: that takes a single process which holds connections."
            " Start a relay and name it by DET_RELAY_URL (docs/guides/relay.md)"
        )
    query = urlencode(request.query, doseq=True)
    location = ctx.relay_url + request.path + (f"?{query}" if query else "")
    return Response(b"{}", 307, headers={"location": location})


ROUTES = tuple(
    Route(
        method,
        "/proxy/{service}/{path...}",
        elsewhere,
        Access.PUBLIC,
        "A port of a task: HTTP, websockets, TCP in websockets",
    )
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
)
