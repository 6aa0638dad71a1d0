"""Traffic to tasks, on a host that does not carry it: it says which one does; the rest, on the relay."""

from collections.abc import Iterable
from urllib.parse import urlencode

from det_controlplane.api.errors import NotFound, Unimplemented
from det_controlplane.api.http import Answer, Request, Response
from det_controlplane.api.router import Access, Match, Route, Router, Unaudited
from det_controlplane.services.context import Context


def elsewhere(ctx: Context, request: Request) -> Answer:
    if not ctx.host.relay_url:
        raise Unimplemented(
            "this API does not carry traffic to tasks: that takes a single process which holds connections."
            " Start a relay and name it by DET_RELAY_URL (docs/guides/relay.md)"
        )
    query = urlencode(request.query, doseq=True)
    location = ctx.host.relay_url + request.path + (f"?{query}" if query else "")
    return Response(b"{}", 307, headers={"location": location})


class RelayRouter(Router):
    """Knows a few routes, and says where the rest of the API is."""

    def __init__(self, routes: Iterable[Route], public_url: str) -> None:
        super().__init__(routes)
        self._api = public_url or "the address of its API"

    def match(self, method: str, path: str) -> Match | set[str]:
        result = super().match(method, path)
        if isinstance(result, Match):
            return result
        raise NotFound(
            f"this is the relay of a cluster, which carries traffic to tasks and nothing else: ask {self._api}"
        )


ROUTES = tuple(
    Route(
        method,
        "/proxy/{service}/{path...}",
        elsewhere,
        Access.PUBLIC,
        "A port of a task: HTTP, websockets, TCP in websockets",
        audit=Unaudited.NO_CHANGE,
    )
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
)
