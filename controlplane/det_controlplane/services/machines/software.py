"""What machines whose image has no agent install: the software of the very cluster that rented them."""

from det_controlplane.ports.wheel import OwnWheel
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

WHEELS = "/agents/v1/wheel"


def address(ctx: Context, master_url: str) -> str | None:
    """Return where a machine finds the wheel, if this control plane has one."""
    return f"{master_url.rstrip('/')}{WHEELS}/{ctx.wheel.name()}" if ctx.wheel else None


def name(ctx: Context) -> str:
    return _wheel(ctx).name()


def content(ctx: Context, asked: str) -> bytes:
    """Return the wheel, if it is of the version that was asked for."""
    wheel = _wheel(ctx)
    if asked != wheel.name():
        raise Missing(f"this cluster has {wheel.name()}, not {asked[:100]}")
    return wheel.content()


def _wheel(ctx: Context) -> OwnWheel:
    if ctx.wheel is None:
        raise Missing("this control plane was packed without the software of its agents")
    return ctx.wheel
