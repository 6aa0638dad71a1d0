"""Check the settings of a pool's machines: EC2's limits, and the roles and accounts for the other cloud's buckets."""

import re
from collections.abc import Mapping

from det_controlplane.core.config.reading import Reader
from det_controlplane.core.problems import shown
from det_controlplane.core.provision import boot

# The limit of EC2 for user data, in bytes before base64.
MOST_USER_DATA = 16_384
# Space for the cluster's id and address and the pool's name, which are not known here.
_RESERVED = 1_024
_IN_USER_DATA = (
    "startup_script", "container_startup_script", "agent_config_file_contents", "pull_images", "google_credentials",
)  # fmt: skip


def check_ec2_limits(reader: Reader) -> None:
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


_ROLE = re.compile(r"arn:aws:iam::\d{12}:role/[\w+=,.@/-]+")
_ADDRESSES = ("token_url", "service_account_impersonation_url")
_TEXTS = ("audience", "subject_token_type", *_ADDRESSES)


def check_other_cloud(reader: Reader, provider: str) -> None:
    """Reject roles that do not work and keys that would put a secret into user data."""
    if provider == "gcp":
        _check_role(reader)
    else:
        _check_account(reader)


def _check_role(reader: Reader) -> None:
    role = reader.text("aws_role_arn", "")
    if role and not _ROLE.fullmatch(role):
        requirement = "the ARN of a role, as arn:aws:iam::123456789012:role/name"
        reader.refuse("aws_role_arn", f"must be {requirement}, not {shown(role)}")


def _check_account(reader: Reader) -> None:
    account = reader.object("google_credentials")
    if not account:
        return None
    if account.get("type") != "external_account":
        message = "must describe an external account, whose type is external_account"
        return reader.refuse(
            "google_credentials", f"{message}: a key would be a secret on each machine"
        )
    missing = [key for key in _TEXTS if not isinstance(account.get(key), str)]
    if missing:
        return reader.refuse("google_credentials", f"lacks {', '.join(missing)}")
    for key in _ADDRESSES:
        if not account[key].startswith("https://"):
            reader.refuse("google_credentials", f"must have an address of HTTPS as {key}")
    return None
