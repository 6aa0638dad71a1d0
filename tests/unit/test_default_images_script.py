"""`scripts/default_images.py` compares the pinned digests with the registries."""

import os
import subprocess
import sys
from pathlib import Path

from det_cli.deployment.registry import ImageName
from det_controlplane.core.config.environment import CUDA_IMAGE, ROCM_IMAGE

from tests.support.fake_registry import FakeRegistry, fake_registry

ROOT = Path(__file__).resolve().parents[2]
OTHER_DIGEST = "sha256:" + "6" * 64


def compare(hub: FakeRegistry) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "scripts/default_images.py"],
        env={**os.environ, "DET_DOCKER_HUB": hub.url},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def add(hub: FakeRegistry, image: str, digest: str = "") -> None:
    name = ImageName.parse(image)
    hub.add(f"{name.repository}:{name.tag}", digest or name.digest)


def test_current_digests_are_confirmed() -> None:
    with fake_registry() as hub:
        add(hub, CUDA_IMAGE)
        add(hub, ROCM_IMAGE)
        result = compare(hub)
    assert result.stdout.splitlines() == [f"current   {CUDA_IMAGE}", f"current   {ROCM_IMAGE}"]
    assert result.returncode == 0


def test_moved_tag_and_unreachable_image_are_reported() -> None:
    with fake_registry() as hub:
        add(hub, CUDA_IMAGE, OTHER_DIGEST)
        result = compare(hub)
    message, unknown = result.stdout.splitlines()
    assert message == (f"moved     {CUDA_IMAGE}: the tag is {OTHER_DIGEST}, the digest is GONE")
    assert unknown.startswith(f"unknown   {ROCM_IMAGE}: docker.io answers 401")
    assert result.returncode == 1
