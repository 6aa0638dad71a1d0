"""Lend the machine's roles to its containers, whose way to the metadata service is blocked.

What is lent ends within hours. It is what the role may do, and nothing by which a machine proves itself to the cluster.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from det_agent.metadata import AwsMetadata, GcpMetadata

_ROLES = "meta-data/iam/security-credentials/"
_ACCOUNT = "instance/service-accounts/default/"
# Containers that ask without end must not have the metadata service throttle this machine.
KEPT_S = 30.0

Lending = Callable[[], Mapping[str, Any]]


class MachineCredentials:
    """Short-lived credentials of a role of the machine. `read` asks for them, and raises OSError."""

    def __init__(self, kind: str, read: Lending, now: Callable[[], float] = time.monotonic) -> None:
        self.kind = kind
        self._read = read
        self._now = now
        self._lock = threading.Lock()
        self._kept: Mapping[str, Any] = {}
        self._until = 0.0

    def current(self) -> Mapping[str, Any]:
        """Return credentials as the container's entry understands them. Raises OSError."""
        with self._lock:
            if not self._kept or self._now() >= self._until:
                self._kept = {"kind": self.kind, **self._read()}
                self._until = self._now() + KEPT_S
            return self._kept


def role_credentials(metadata: AwsMetadata) -> Mapping[str, str]:
    """Return the credentials of the role of a machine on EC2. Raises OSError, which says what the machine lacks."""
    roles = (metadata.get(_ROLES) or "").splitlines()
    if not roles:
        raise OSError(
            "this machine has no role, so it cannot prove what it is: "
            "give the pool's `provider.iam_instance_profile_arn`"
        )
    keys = json_object(metadata.get(_ROLES + roles[0]) or "", "EC2's")
    if not keys.keys() >= {"AccessKeyId", "SecretAccessKey", "Token"}:
        said = keys.get("Message") or keys.get("Code") or "nothing"
        raise OSError(f"the metadata service has no credentials of the role {roles[0]}: {said}")
    return keys


def account_token(metadata: GcpMetadata) -> Mapping[str, Any]:
    """Return an access token of the service account of a machine on Compute Engine. Raises OSError."""
    token = metadata.get(f"{_ACCOUNT}token")
    if token is None:
        raise OSError("this machine has no service account: give the pool's `service_account`")
    return {
        **json_object(token, "Google's"),
        "email": (metadata.get(f"{_ACCOUNT}email") or "default").strip(),
        "scopes": (metadata.get(f"{_ACCOUNT}scopes") or "").split(),
        "project": (metadata.get("project/project-id") or "").strip(),
    }


def json_object(text: str, whose: str) -> Mapping[str, str]:
    try:
        read = json.loads(text)
    except ValueError as e:
        raise OSError(f"the metadata service is not {whose}: {e}") from e
    if not isinstance(read, dict):
        raise OSError(f"the metadata service is not {whose}: it says {text[:80]!r}")
    return read
