"""The user data of a machine: what the cluster and the pool's provider section say, as a script."""

from det_controlplane.core.provision import boot
from det_controlplane.db.instances import Requested
from det_controlplane.services.context import Context


def user_data(ctx: Context, requested: Requested) -> str:
    """Return the script that makes the requested machine an agent of its pool."""
    settings = ctx.config.section_settings(requested.pool, requested.section)
    contents = settings.get("agent_config_file_contents")
    return boot.user_data(
        boot.Boot(
            cluster_id=ctx.cluster_id,
            master_url=str(settings.get("master_url") or ctx.public_url),
            pool=requested.pool,
            provider=requested.provider,
            package=str(settings.get("agent_package") or boot.DEFAULT_PACKAGE),
            startup_script=str(settings.get("startup_script") or ""),
            agent_config=contents if isinstance(contents, dict) else {},
        )
    )
