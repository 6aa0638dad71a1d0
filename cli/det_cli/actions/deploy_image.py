"""`det deploy aws image` and `det deploy gcp image`: the same steps for both clouds."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from det_cli import prompts
from det_cli.deployment import machine_image
from det_cli.deployment.cluster import Deployment
from det_cli.deployment.machine_image import BEFORE, DEFAULT_POOLS, Builder, Recipe
from det_cli.errors import CommandError, UsageError
from det_cli.render import say


@dataclass(frozen=True)
class Place:
    """The cloud and region of an image, and the defaults for making it."""

    provider: str  # "aws" or "gcp"
    region: str
    base_image: str
    machine_type: str


def run(
    args: argparse.Namespace,
    deployment: Deployment,
    place: Place,
    builder_of: Callable[[Mapping[str, Any]], Builder],
) -> None:
    """Bake an image, or take a named or the previous one, and store it for the next `up`."""
    account, cluster_id = deployment.account, args.cluster_id
    deployment.check_exists()
    stored = account.options(cluster_id)
    if args.roll_back:
        images = _earlier(stored)
    else:
        pools = machine_image.pools_of(stored, args.pool or (), place.provider, place.region)
        image = args.use or _bake(args, deployment, place, builder_of, stored)
        images = dict.fromkeys(pools, image)
    # The options may have changed during the build.
    stored = account.options(cluster_id)
    changed = machine_image.use(stored, images, place.provider, place.region)
    account.keep_options(cluster_id, changed)
    _print(args, place, images, changed)


def _earlier(stored: Mapping[str, Any]) -> dict[str, str]:
    before = stored.get(BEFORE)
    if not before:
        raise UsageError(
            "no earlier image is stored, because this command has not changed the image",
            "give --use IMAGE",
        )
    return {str(pool): str(image) for pool, image in before.items()}


def _bake(
    args: argparse.Namespace,
    deployment: Deployment,
    place: Place,
    builder_of: Callable[[Mapping[str, Any]], Builder],
    stored: Mapping[str, Any],
) -> str:
    machine_type = args.machine_type or place.machine_type
    prompts.confirm(
        f"Rent a {machine_type} in {place.region} for up to {machine_image.BAKING_LIMIT_S // 60}"
        f" minutes, and store an image of {args.disk_size} GB?",
        yes=args.yes,
    )
    outputs = deployment.outputs()
    recipe = Recipe(
        cluster_id=args.cluster_id,
        master_url=str(outputs["url"]),
        machine_type=machine_type,
        base_image=args.base_image or place.base_image,
        pull_images=tuple(args.pull_image or [default_image(stored)]),
        disk_gb=args.disk_size,
    )
    try:
        return machine_image.bake(builder_of(outputs), recipe, say)
    except KeyboardInterrupt:
        raise CommandError(
            "stopped: the machine is terminated and no image was stored", "run the command again"
        ) from None


def default_image(stored: Mapping[str, Any]) -> str:
    """Return the image of tasks with GPUs that name none."""
    from det_controlplane.core.config.environment import CUDA_IMAGE

    config = stored.get("config") or {}
    image = (config.get("task_container_defaults") or {}).get("image")
    if isinstance(image, Mapping):
        image = image.get("cuda") or image.get("gpu")
    return str(stored.get("gpu_env_image") or image or CUDA_IMAGE)


def _print(
    args: argparse.Namespace, place: Place, images: Mapping[str, str], stored: Mapping[str, Any]
) -> None:
    command = f"det deploy {place.provider}"
    where = f"--cluster-id {args.cluster_id} --region {place.region}"
    for pool, image in images.items():
        print(f"{pool or 'default pools'}: {image or 'the default image'}")
    print("next:")
    print(f"  {command} up {where}                  # machines that are rented afterwards use it")
    before = {image or "the default image" for image in stored[BEFORE].values()}
    print(
        f"  {command} image {where} --roll-back   # back to {', '.join(sorted(before))}, then run up"
    )
    if DEFAULT_POOLS not in images:
        key = {"aws": "image_id", "gcp": "boot_disk_source_image"}[place.provider]
        say(
            f"If you give --config to `up`, set {key} in its pools, too: it replaces the stored pools."
        )
