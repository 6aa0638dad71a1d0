"""Serve the agent's wheel from the cluster, so that a machine installs the version of its cluster."""

from det_controlplane.api.http import Answer, Request, Response
from det_controlplane.api.router import Access, get
from det_controlplane.services.context import Context
from det_controlplane.services.machines import boot
from det_controlplane.services.machines.boot import CONSTRAINTS, WHEELS

_KEEP_S = 300


def newest(ctx: Context, request: Request) -> Answer:
    """Return the address of the wheel. pip reads the version from the file name in the address."""
    # Relative, as machines may know the cluster by another address than it does itself.
    folder = "" if request.path.endswith("/") else f"{WHEELS.rpartition('/')[2]}/"
    return Response(b"", 302, headers={"Location": f"{folder}{boot.wheel_name(ctx)}"})


def file(ctx: Context, request: Request) -> Answer:
    name = request.param("name")
    content = boot.wheel_content(ctx, name)
    headers = {"Cache-Control": f"public, max-age={_KEEP_S}"}
    # pip reads a list of versions only from answers with the type text/html.
    kind = "text/plain; charset=utf-8" if name == CONSTRAINTS else "application/octet-stream"
    return Response(content, media_type=kind, headers=headers)


_FILES = ("application/octet-stream", "text/plain")
ROUTES = (
    get(
        WHEELS,
        newest,
        access=Access.PUBLIC,
        produces=_FILES,
        summary="To the wheel of this version",
    ),
    get(
        f"{WHEELS}/{{name}}",
        file,
        access=Access.PUBLIC,
        produces=_FILES,
        summary="The software of agents and the command line",
    ),
)
