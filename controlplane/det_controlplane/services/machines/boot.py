"""Make the user data of a machine, a script, and serve the agent's wheel that the script installs.

The script has the cluster's settings and the settings of the pool's provider section."""

from collections.abc import Mapping
from typing import Any

from det_controlplane.core.provision import boot, catalog
from det_controlplane.db.machines.machines import Requested
from det_controlplane.ports.wheel import OwnWheel
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

WHEELS = "/agents/v1/wheel"
CONSTRAINTS = "constraints.txt"


def of_machine(ctx: Context, requested: Requested) -> boot.Boot:
    """Return the facts that the requested machine needs to become an agent of its pool."""
    settings = ctx.config.section_settings(requested.pool, requested.section)
    master_url = str(settings.get("master_url") or ctx.host.public_url)
    chosen = settings.get("agent_package")
    own = _wheel_address(ctx, master_url)
    package = chosen or own
    contents = settings.get("agent_config_file_contents")
    return boot.Boot(
        cluster_id=ctx.cluster_id,
        master_url=master_url,
        pool=requested.pool,
        provider=requested.provider,
        package=str(package or boot.DEFAULT_PACKAGE),
        constraints="" if chosen else _constraints_address(ctx, master_url),
        libraries=boot.AGENT_LIBRARIES if own and not chosen else (),
        startup_script=str(settings.get("startup_script") or ""),
        last_script=str(settings.get("container_startup_script") or ""),
        images=tuple(settings.get("pull_images") or ()),
        agent_config=contents if isinstance(contents, dict) else {},
        aws_role_arn=str(settings.get("aws_role_arn") or ""),
        google_credentials=settings.get("google_credentials") or {},
        has_gpus=_has_gpus(requested, settings),
    )


def _has_gpus(requested: Requested, settings: Mapping[str, Any]) -> bool:
    """Return whether each requested type has GPUs. For N1 types, the section says so.

    For a type that the catalog does not know, several slots are taken for GPUs; one slot may be a processor."""
    instance_type = settings.get("instance_type")
    attached = instance_type.get("gpu_num", 0) if isinstance(instance_type, Mapping) else 0
    return all(
        catalog.has_gpus(offer.provider, offer.machine_type)
        or (offer.slots > 1 and not catalog.is_known(offer.provider, offer.machine_type))
        or (attached and offer.machine_type.startswith("n1-"))
        for offer in requested.offers
    )


def _wheel_address(ctx: Context, master_url: str) -> str | None:
    """Return where a machine finds the wheel, if this control plane has one."""
    return f"{master_url.rstrip('/')}{WHEELS}/{ctx.wheel.name()}" if ctx.wheel else None


def _constraints_address(ctx: Context, master_url: str) -> str:
    """Return where a machine finds the versions of the libraries; empty where this control plane knows none."""
    constraints = ctx.wheel is not None and ctx.wheel.constraints()
    return f"{master_url.rstrip('/')}{WHEELS}/{CONSTRAINTS}" if constraints else ""


def wheel_name(ctx: Context) -> str:
    return _wheel(ctx).name()


def wheel_content(ctx: Context, asked: str) -> bytes:
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
