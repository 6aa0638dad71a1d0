"""Bake an image of the cluster's machines: rent a machine, run the script of images on it, and register its disk.

No Packer is needed. The machine ends with the command, also after Ctrl-C or an error. If the command itself is killed,
the machine ends by itself after BAKING_LIMIT_S, and the next run of the command ends it earlier.
"""

import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from det_cli.errors import CommandError, UsageError
from det_cli.render import Say

BAKING_LIMIT_S = 5400
LOOK_S = 10.0
_HERE = Path(__file__).resolve()
# The paths in an installed package, and in a checkout.
_SCRIPTS = (
    _HERE.parent / "machine_script/provision.sh",
    _HERE.parents[3] / "agent_ami/packer/provision.sh",
)
_DONE, _FAILED = "determined-image: done", "determined-image: failed"
_STEP = re.compile(r"determined-image: (.*)")
_LAST_LINES = 8
# Key of stored options: the images before the newest, by pool.
BEFORE = "images_before"
DEFAULT_POOLS = ""


@dataclass(frozen=True)
class Recipe:
    """The content of an image."""

    cluster_id: str
    master_url: str
    machine_type: str
    base_image: str
    pull_images: tuple[str, ...] = ()
    disk_gb: int = 100

    @property
    def name(self) -> str:
        """Return a new name. Its end is the time in UTC."""
        now = datetime.now(timezone.utc)
        return f"det-{self.cluster_id}-{now:%Y%m%d%H%M%S}".lower()


class Builder(Protocol):
    """A machine of a cloud that becomes an image."""

    def leftovers(self) -> Sequence[str]:
        """Terminate the machines of interrupted runs and return their names."""

    def start(self, recipe: Recipe, script: str) -> str:
        """Rent the machine and return its name. It ends by itself after BAKING_LIMIT_S."""

    def console(self) -> str:
        """Return the last lines of the machine's console."""

    def is_running(self) -> bool: ...

    def register(self, name: str) -> str:
        """Stop the machine, register its disk as an image, and return the image once it can be used."""

    def discard(self) -> None:
        """Terminate the machine, and delete an image that is not complete."""


def script_of(recipe: Recipe) -> str:
    """Return the script that the machine runs at its first start."""
    path = next((path for path in _SCRIPTS if path.is_file()), None)
    if path is None:
        raise CommandError("provision.sh is missing in this installation", "install it again")
    return _SCRIPT.format(
        limit_s=BAKING_LIMIT_S,
        wheel=shlex.quote(f"{recipe.master_url.rstrip('/')}/agents/v1/wheel"),
        images=shlex.quote(" ".join(recipe.pull_images)),
        provision=path.read_text("utf-8"),
    )


def bake(
    builder: Builder,
    recipe: Recipe,
    say: Say,
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Return a new image. No machine remains, however this ends."""
    script = script_of(recipe)
    for name in builder.leftovers():
        say(f"Terminated {name}, which an interrupted run left")
    try:
        say(f"Renting a {recipe.machine_type} for the image, from {recipe.base_image}")
        machine = builder.start(recipe, script)
        say(f"Baking on {machine}: docker, toolkit, agent and images, some minutes")
        _wait_for_script(builder, say, pause, clock() + BAKING_LIMIT_S, clock)
        say("Registering the image, some minutes")
        return builder.register(recipe.name)
    finally:
        builder.discard()


def _wait_for_script(
    builder: Builder,
    say: Say,
    pause: Callable[[float], None],
    deadline: float,
    clock: Callable[[], float],
) -> None:
    """Wait until the script is done, and print its steps. Raises CommandError if it fails."""
    printed = 0
    while True:
        # The state first: a machine that has ended may have a newer console.
        is_running, console = builder.is_running(), builder.console()
        steps = _STEP.findall(console)
        for step in steps[printed:]:
            say(f"  {step.strip()}")
        printed = max(printed, len(steps))
        if _DONE in console:
            return
        if _FAILED in console or not is_running:
            raise CommandError(f"the image could not be made: {_end_of(console)}", _HINT)
        if clock() > deadline:
            raise CommandError(
                f"the image is not made after {BAKING_LIMIT_S // 60} minutes: {_end_of(console)}",
                _HINT,
            )
        pause(LOOK_S)


_HINT = "correct the cause and run the same command again; the machine is terminated"


def _end_of(console: str) -> str:
    lines = [line.strip() for line in console.splitlines() if line.strip()]
    return "\n  ".join(lines[-_LAST_LINES:]) or "the machine wrote nothing to its console"


def use(
    options: Mapping[str, Any], images: Mapping[str, str], provider: str, region: str
) -> dict[str, Any]:
    """Return stored options with these images of pools, and with the images before them for a rollback.

    The name of the default pools is DEFAULT_POOLS. '' as an image means the default image.
    """
    before = {}
    changed = {**options}
    if DEFAULT_POOLS in images:
        before[DEFAULT_POOLS] = str(options.get("environment_image") or "")
        changed["environment_image"] = images[DEFAULT_POOLS] or None
    else:
        config = dict(options["config"])
        pools = [dict(pool) for pool in config["resource_pools"]]
        for pool in pools:
            if pool["pool_name"] in images:
                image = images[pool["pool_name"]]
                before[pool["pool_name"]] = _replace(pool, image, provider, region)
        changed["config"] = {**config, "resource_pools": pools}
    return {**changed, BEFORE: before}


_KEYS = {"aws": "image_id", "gcp": "boot_disk_source_image"}


def _replace(pool: dict[str, Any], image: str, provider: str, region: str) -> str:
    """Set the image in the pool's sections of a cloud and region. Return the first image before."""
    key, before = _KEYS[provider], ""
    of = "provider" if pool.get("provider") else "offers"
    sections = [pool["provider"]] if of == "provider" else pool["offers"]
    changed = []
    for section in sections:
        if is_here(section, provider, region):
            before = before or str(section.get(key) or "")
            section = {n: v for n, v in section.items() if n != key}
            section |= {key: image} if image else {}
        changed.append(section)
    pool[of] = changed[0] if of == "provider" else changed
    return before


def is_here(section: Mapping[str, Any], provider: str, region: str) -> bool:
    """Return True if a section rents where the image is: in a region of AWS, or anywhere on Google Cloud."""
    regions = section.get("regions") or [section.get("region") or region]
    return section.get("type") == provider and (provider == "gcp" or list(regions) == [region])


def pools_of(
    options: Mapping[str, Any], wanted: Sequence[str], provider: str, region: str
) -> list[str]:
    """Return the pools that get the image: the wanted ones, or all that can use it. Raises UsageError."""
    pools = (options.get("config") or {}).get("resource_pools")
    if not pools:
        if wanted:
            raise UsageError(
                "the cluster has the default pools, which share one image", "leave out --pool"
            )
        return [DEFAULT_POOLS]
    fitting = [
        str(pool["pool_name"])
        for pool in pools
        for section in [[pool["provider"]] if pool.get("provider") else pool.get("offers") or ()]
        if any(is_here(s, provider, region) for s in section)
    ]
    unknown = [name for name in wanted if name not in fitting]
    if unknown or not fitting:
        names = ", ".join(fitting) or "none"
        raise UsageError(
            f"pool {unknown[0] if unknown else ''} rents no machines here".replace(
                "pool  ", "no pool "
            ),
            f"pools that rent on {provider} in {region}: {names}",
        )
    return list(wanted) or fitting


_SCRIPT = """#!/bin/bash
# Makes this machine an image of Determined's machines. It ends by itself if the command that rented it goes away.
set -eu -o pipefail
exec > >(tee -a /var/log/determined-image.log) 2>&1
(sleep {limit_s}; poweroff) > /dev/null 2>&1 < /dev/null &
trap 'echo "determined-image: failed at line $LINENO with status $?"' ERR
wheel=$(curl -fsS --retry 5 -o /dev/null -w '%{{redirect_url}}' {wheel})
cat > /run/determined-provision.sh <<'DETERMINED_PROVISION'
{provision}
DETERMINED_PROVISION
AGENT_PACKAGE="$wheel" PULL_IMAGES={images} bash /run/determined-provision.sh
"""
