"""Make the user data of a machine, a script, from the cluster's settings and the pool's provider section."""

from collections.abc import Mapping
from typing import Any

from det_controlplane.core.provision import boot, catalog
from det_controlplane.db.machines.machines import Requested
from det_controlplane.services.context import Context
from det_controlplane.services.machines import software


def user_data(ctx: Context, requested: Requested) -> str:
    """Return the script that makes the requested machine an agent of its pool."""
    settings = ctx.config.section_settings(requested.pool, requested.section)
    master_url = str(settings.get("master_url") or ctx.host.public_url)
    chosen = settings.get("agent_package")
    own = software.address(ctx, master_url)
    package = chosen or own
    contents = settings.get("agent_config_file_contents")
    return boot.user_data(
        boot.Boot(
            cluster_id=ctx.cluster_id,
            master_url=master_url,
            pool=requested.pool,
            provider=requested.provider,
            package=str(package or boot.DEFAULT_PACKAGE),
            constraints="" if chosen else software.constraints_address(ctx, master_url),
            libraries=boot.AGENT_LIBRARIES if own and not chosen else (),
            startup_script=str(settings.get("startup_script") or ""),
            last_script=str(settings.get("container_startup_script") or ""),
            images=tuple(settings.get("pull_images") or ()),
            agent_config=contents if isinstance(contents, dict) else {},
            aws_role_arn=str(settings.get("aws_role_arn") or ""),
            google_credentials=settings.get("google_credentials") or {},
            has_gpus=_has_gpus(requested, settings),
        )
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
