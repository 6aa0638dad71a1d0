"""The upload path of hosts that store objects in a directory. Clouds take uploads themselves."""

from det_controlplane.adapters.directory_objects import (
    UPLOAD_PATH,
    BadKey,
    DirectoryObjects,
    UploadRefused,
)
from det_controlplane.api.errors import BadRequest, PermissionDenied
from det_controlplane.api.http import EMPTY, Request, Response
from det_controlplane.api.router import Access, Route
from det_controlplane.services.context import Context


def object_routes(store: DirectoryObjects) -> tuple[Route, ...]:
    def upload(_: Context, request: Request) -> Response:
        size, expires, signature = (request.text(n) for n in ("size", "expires", "signature"))
        try:
            store.receive(request.param("key"), request.body, size, expires, signature)
        except BadKey as e:
            raise BadRequest(str(e)) from e
        except UploadRefused as e:
            raise PermissionDenied(str(e)) from e
        return EMPTY

    def admits(request: Request) -> int:
        size, expires, signature = (request.text(n) for n in ("size", "expires", "signature"))
        try:
            return store.admitted(request.param("key"), size, expires, signature)
        except BadKey as e:
            raise BadRequest(str(e)) from e
        except UploadRefused as e:
            raise PermissionDenied(str(e)) from e

    # The signature in the URL is the caller's credential.
    path = UPLOAD_PATH + "{key...}"
    summary = "Upload an object by a signed URL"
    return (Route("PUT", path, upload, Access.PUBLIC, summary, admits=admits),)
