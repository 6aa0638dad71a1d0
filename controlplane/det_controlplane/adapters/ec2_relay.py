"""Start the EC2 machine of a relay, which is stopped while no task needs it. boto3 is imported at first use."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

log = logging.getLogger("det.relay")


def starter_of(environment: Mapping[str, str]) -> Callable[[], None] | None:
    """Return a function that starts the relay's machine, or None if there is no such machine."""
    instance_id = environment.get("DET_RELAY_INSTANCE", "")
    return (lambda: start(_client(), instance_id)) if instance_id else None


def start(ec2: Any, instance_id: str) -> None:
    """Start the machine. This has no effect on a running machine. The next turn retries a machine that is stopping."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        ec2.start_instances(InstanceIds=[instance_id])
    except (BotoCoreError, ClientError) as e:
        log.warning("the relay's machine %s cannot be started now: %s", instance_id, e)


def _client() -> Any:
    import boto3

    return boto3.client("ec2")
