"""Checks before a deployment that the default task images exist in their registries."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from det_cli.deployment import registry
from det_cli.deployment.registry import BadImageName, Existence, ImageName, Login
from det_cli.errors import CommandError
from det_cli.render import Say

if TYPE_CHECKING:
    from det_controlplane.core.config.environment import RegistryAuth
    from det_controlplane.core.config.pools import Pool

_FIX = (
    "give an existing image with --cpu-env-image and --gpu-env-image, or task_container_defaults.image in the"
    " --config FILE"
)


def check(config: Mapping[str, Any], say: Say) -> None:
    """Check the default images of all pools. Warn about images that cannot be checked.

    Raises CommandError if a registry does not have an image, or if machines may not pull it.
    """
    for image, (pools, auth) in _default_images(config).items():
        try:
            name = ImageName.parse(image)
        except BadImageName as e:
            raise CommandError(
                f"tasks of {pools} would use an image with an invalid name: {e}", _FIX
            ) from e
        result = registry.look_up(name, _login(auth, name))
        if result.existence is Existence.MISSING:
            raise CommandError(
                f"tasks of {pools} would use the image {image}, which does not exist: {result.reason}",
                _FIX,
            )
        if result.existence is Existence.DENIED and _is_anonymous(auth, name):
            raise CommandError(
                f"tasks of {pools} cannot pull the image {image}: {result.reason}",
                f"{_FIX}; for a private image, set registry_auth in the same configuration; if the machines' boot image"
                " contains it, add --no-preflight-checks",
            )
        if result.existence in (Existence.DENIED, Existence.UNKNOWN):
            say(f"warning: the image {image} could not be checked: {result.reason}")
        else:
            say(f"Tasks of {pools} use the image {image}; {name.registry} has it")


def _default_images(config: Mapping[str, Any]) -> dict[str, tuple[str, "RegistryAuth | None"]]:
    """Return the images with their pools and the login for their registry."""
    from det_controlplane.core.config.cluster import load_cluster
    from det_controlplane.core.config.cluster_check import default_environments

    pools: dict[str, dict[str, None]] = {}
    logins: dict[str, RegistryAuth | None] = {}
    for pool, environment in default_environments(load_cluster(config)):
        for kind in _slot_kinds(pool):
            image = getattr(environment.image, kind)
            pools.setdefault(image, {})[pool.pool_name] = None
            logins[image] = logins.get(image) or environment.registry_auth
    return {image: (" and ".join(names), logins[image]) for image, names in pools.items()}


def _slot_kinds(pool: "Pool") -> Iterator[str]:
    """Yield the slot types that tasks of a pool can have. A zero-slot task counts as `cpu`."""
    yield "cpu"
    if not pool.offers or any(offer.slots for offer in pool.offers):
        yield "cuda"


def _is_anonymous(auth: "RegistryAuth | None", name: ImageName) -> bool:
    """Return True if machines pull the image without a login. They may have accounts at other registries."""
    return name.registry == registry.DOCKER_HUB and not _is_for(auth, name)


def _is_for(auth: "RegistryAuth | None", name: ImageName) -> bool:
    """Return True if a login is configured for the registry of this image."""
    if auth is None:
        return False
    return not auth.serveraddress or _is_same_registry(auth.serveraddress, name)


def _login(auth: "RegistryAuth | None", name: ImageName) -> Login | None:
    """Return the configured login for the registry of this image, unless it is in a form for Docker only."""
    if auth is None or not _is_for(auth, name):
        return None
    if auth.username and auth.password:
        return Login(auth.username, auth.password)
    return None


def _is_same_registry(address: str, name: ImageName) -> bool:
    host = address.removeprefix("https://").removeprefix("http://").partition("/")[0]
    return host.removeprefix("index.") == name.registry
