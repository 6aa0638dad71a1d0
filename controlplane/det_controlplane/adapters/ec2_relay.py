"""The machine of a relay in EC2, which is stopped while no task needs it. boto3 is loaded when it is needed."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

log = logging.getLogger("det.relay")


def starter_of(environment: Mapping[str, str]) -> Callable[[], None] | None:
    """Return the starter of the relay's machine; None where there is no such machine."""
    instance_id = environment.get("DET_RELAY_INSTANCE", "")
    return (lambda: start(_client(), instance_id)) if instance_id else None


def start(ec2: Any, instance_id: str) -> None:
    """Start the machine. One that runs is left alone; one that is just stopping is started by the next turn."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        ec2.start_instances(InstanceIds=[instance_id])
    except (BotoCoreError, ClientError) as e:
        log.warning("the relay's machine %s cannot be started now: %s", instance_id, e)


def _client() -> Any:
    import boto3

    return boto3.client("ec2")
