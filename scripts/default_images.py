"""Compare the pinned digests of the default images with their registries. `--write` pins the tags' current digests.

    .venv/bin/python scripts/default_images.py

`docker buildx imagetools inspect IMAGE:TAG` prints the same digest.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from det_cli.deployment import registry
from det_cli.deployment.registry import Existence, ImageName
from det_controlplane.core.config.environment import CUDA_IMAGE, ROCM_IMAGE

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "controlplane/det_controlplane/core/config/environment.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="pin the digests of the tags")
    write = parser.parse_args().write
    digests = dict(_moved_digests((CUDA_IMAGE, ROCM_IMAGE)))
    if write and digests:
        PINS.write_text(_replaced(PINS.read_text("utf-8"), digests), "utf-8")
        print("Run `scripts/config_reference.py --write`, and the tests of images.")
    return 1 if digests and not write else 0


def _moved_digests(images: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Print the result for each image. Yield the pinned and the current digest of each tag that has moved."""
    for image in images:
        image_name = ImageName.parse(image)
        tag = registry.look_up(replace(image_name, digest=""))
        digest = registry.look_up(image_name)
        unclear = (Existence.DENIED, Existence.UNKNOWN)
        if tag.existence in unclear or digest.existence in unclear:
            print(f"unknown   {image}: {tag.reason or digest.reason}")
        elif tag.digest == image_name.digest:
            print(f"current   {image}")
        else:
            state = "still there" if digest.existence is Existence.FOUND else "GONE"
            print(f"moved     {image}: the tag is {tag.digest or 'gone'}, the digest is {state}")
            if tag.digest:
                yield image_name.digest, tag.digest


def _replaced(text: str, digests: dict[str, str]) -> str:
    for old, new in digests.items():
        text = text.replace(old, new)
    return text


if __name__ == "__main__":
    sys.exit(main())
