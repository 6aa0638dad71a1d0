"""Public Google Cloud images for machines. The user data installs the agent on them."""

from collections.abc import Mapping
from typing import Any

from det_cli.errors import UsageError

# Ubuntu with NVIDIA's driver. Machines without GPUs can also run it.
GPU_IMAGE = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2204-amd64-with-nvidia-580"
CPU_IMAGE = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2204-lts"

# GPUs older than NVIDIA's Turing. NVIDIA's open kernel modules in the default image do not support them.
_PROPRIETARY_DRIVER = frozenset({"nvidia-tesla-p4", "nvidia-tesla-p100", "nvidia-tesla-v100"})


def check_gpus(config: Mapping[str, Any]) -> None:
    """Raise UsageError for a pool that uses the default image with GPUs that the image does not support."""
    from det_controlplane.core.config.cluster import load_cluster

    for pool in load_cluster(config).resource_pools:
        for section in pool.sections:
            settings = section.settings
            gpu = _attached_gpu(settings.get("instance_type"))
            if gpu in _PROPRIETARY_DRIVER and settings.get("boot_disk_source_image") == GPU_IMAGE:
                raise UsageError(
                    f"the default image does not support {gpu}, which {pool.pool_name} needs: it has NVIDIA's open"
                    " kernel modules, which need a GPU of the Turing generation (T4) or newer",
                    "give an image with NVIDIA's proprietary driver, version 580 or older, with --environment-image"
                    " (boot_disk_source_image in a configuration), or use another GPU",
                )


def _attached_gpu(instance_type: Any) -> str:
    if not isinstance(instance_type, Mapping) or not instance_type.get("gpu_num"):
        return ""
    return str(instance_type.get("gpu_type") or "")
