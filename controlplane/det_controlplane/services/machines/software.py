"""Serve the agent's wheel in the version of the cluster, for machines with images without an agent."""

from det_controlplane.ports.wheel import OwnWheel
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

WHEELS = "/agents/v1/wheel"
CONSTRAINTS = "constraints.txt"


def address(ctx: Context, master_url: str) -> str | None:
    """Return where a machine finds the wheel, if this control plane has one."""
    return f"{master_url.rstrip('/')}{WHEELS}/{ctx.wheel.name()}" if ctx.wheel else None


def constraints_address(ctx: Context, master_url: str) -> str:
    """Return where a machine finds the versions of the libraries; empty where this control plane knows none."""
    constraints = ctx.wheel is not None and ctx.wheel.constraints()
    return f"{master_url.rstrip('/')}{WHEELS}/{CONSTRAINTS}" if constraints else ""


def name(ctx: Context) -> str:
    return _wheel(ctx).name()


def content(ctx: Context, asked: str) -> bytes:
    """Return the wheel, if it is of the version that was asked for, or the constraints beside it."""
    wheel = _wheel(ctx)
    if asked == CONSTRAINTS:
        return wheel.constraints()
    if asked != wheel.name():
        raise Missing(f"this cluster has {wheel.name()}, not {asked[:100]}")
    return wheel.content()


def _wheel(ctx: Context) -> OwnWheel:
    if ctx.wheel is None:
        raise Missing("this control plane was packed without the software of its agents")
    return ctx.wheel
