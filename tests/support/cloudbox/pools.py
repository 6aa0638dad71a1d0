"""Pools that rent the machines of the box, and a cluster that has them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.cloudbox.box import Box, cloud_in_a_box
from tests.support.cloudbox.ec2 import PROFILE, SPOT_USD_HOUR
from tests.support.cloudbox.gce import PROJECT
from tests.support.cluster import Cluster, local_cluster
from tests.support.ports import free_port

# Machines have no GPUs: their agents pretend to, and run containers as processes.
AGENT = {"container_runtime": "process", "slots": "artificial:1"}
# The on-demand price; EC2's spot price is 45 % of it.
PRICE_USD_HOUR = SPOT_USD_HOUR / 0.45


def on_aws(box: Box, *zones: str, image: int = 0, **more: Any) -> dict[str, Any]:
    """Return a section that rents spot machines of EC2 in some zones."""
    return {
        "type": "aws", "zones": [f"us-west-2{zone}" for zone in zones], "instance_types": ["g4dn.xlarge"],
        "instance_price": PRICE_USD_HOUR, "capacity": ["spot"], "image_id": box.image_id(image),
        "iam_instance_profile_arn": PROFILE, "master_url": box.master_url,
        "agent_config_file_contents": AGENT, **more,
    }  # fmt: skip


def on_google(box: Box, *zones: str, image: str = "ours", **more: Any) -> dict[str, Any]:
    """Return a section that rents spot machines of Compute Engine; its spot machines cost 7 % more than EC2's."""
    return {
        "type": "gcp", "project": PROJECT, "zones": [f"us-central1-{zone}" for zone in zones],
        "instance_type": {"machine_type": "g2-standard-8", "gpu_num": 0},
        "instance_price": PRICE_USD_HOUR * 1.2, "instance_slots": 1, "capacity": ["spot"],
        "boot_disk_source_image": image, "master_url": box.master_url,
        "agent_config_file_contents": AGENT, **more,
    }  # fmt: skip


def pool(name: str, *sections: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "pool_name": name, "offers": list(sections), "max_instances": 6, "max_idle_agent_period": "3s",
        **more,
    }  # fmt: skip


@contextmanager
def boxed_cluster(box: Box, folder: Path, *pools: Mapping[str, Any]) -> Iterator[Cluster]:
    """Start a cluster with pools that rent, and an agent without slots for auxiliary tasks."""
    config = yaml.safe_dump({"resource_pools": [{"pool_name": "default"}, *pools]})
    folder.mkdir()
    with local_cluster(
        folder, runtime="process", agents=1, slots=0, config=config, port=box.port, environ=box.environment,
    ) as cluster:  # fmt: skip
        yield cluster


@contextmanager
def box_for_a_cluster(folder: Path) -> Iterator[Box]:
    with cloud_in_a_box(folder, free_port()) as box:
        yield box
