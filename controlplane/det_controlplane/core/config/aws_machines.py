"""Check the settings of a pool's machines against the limits of EC2."""

from collections.abc import Mapping

from det_controlplane.core.config.reading import Reader
from det_controlplane.core.provision import boot

# The limit of EC2 for user data, in bytes before base64.
MOST_USER_DATA = 16_384
# Space for the cluster's id and address and the pool's name, which are not known here.
_RESERVED = 1_024
_IN_USER_DATA = (
    "startup_script", "container_startup_script", "agent_config_file_contents", "pull_images", "google_credentials",
)  # fmt: skip


def check(reader: Reader) -> None:
    """Check the volume and the boot script of a section."""
    if reader.gives("root_volume_throughput"):
        reader.whole("root_volume_throughput", 125, 125, 1000)
        if reader.text("root_volume_type", "gp3") != "gp3":
            reader.refuse(
                "root_volume_throughput", "is a setting of gp3: leave root_volume_type out"
            )
    size = len(_user_data(reader).encode()) + _RESERVED
    if size > MOST_USER_DATA:
        keys = [key for key in _IN_USER_DATA if reader.gives(key)]
        largest = max(keys, key=lambda key: len(str(reader.raw(key))), default=_IN_USER_DATA[0])
        reader.refuse(
            largest,
            f"makes the boot script of a machine {size} bytes long with the others of {', '.join(_IN_USER_DATA)};"
            f" EC2 takes {MOST_USER_DATA}: let startup_script fetch the rest from a bucket, or build an image",
        )


def _user_data(reader: Reader) -> str:
    contents, google = reader.raw("agent_config_file_contents"), reader.raw("google_credentials")
    images = reader.raw("pull_images")
    return boot.user_data(
        boot.Boot(
            cluster_id="",
            master_url="",
            pool="",
            provider="aws",
            package=str(reader.raw("agent_package") or ""),
            startup_script=str(reader.raw("startup_script") or ""),
            last_script=str(reader.raw("container_startup_script") or ""),
            images=tuple(map(str, images)) if isinstance(images, list) else (),
            agent_config=contents if isinstance(contents, Mapping) else {},
            google_credentials=google if isinstance(google, Mapping) else {},
            has_gpus=True,
        )
    )
