"""Give containers the credentials of the machine's roles, because they cannot reach the metadata service.

The credentials expire within hours. They do not let a container join the cluster as a machine.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from det_agent.metadata import AwsMetadata, GcpMetadata

_ROLES = "meta-data/iam/security-credentials/"
_ACCOUNT = "instance/service-accounts/default/"
# A cache, so that frequent requests of containers do not make the metadata service throttle this machine.
KEPT_S = 30.0

ReadCredentials = Callable[[], Mapping[str, Any]]


class MachineCredentials:
    """Short-lived credentials of a role of the machine. `read` requests them and raises OSError."""

    def __init__(
        self, kind: str, read: ReadCredentials, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.kind = kind
        self._read = read
        self._now = now
        self._lock = threading.Lock()
        self._cached: Mapping[str, Any] = {}
        self._until = 0.0

    def current(self) -> Mapping[str, Any]:
        """Return credentials in the format of the container's entry program. Raises OSError."""
        with self._lock:
            if not self._cached or self._now() >= self._until:
                self._cached = {"kind": self.kind, **self._read()}
                self._until = self._now() + KEPT_S
            return self._cached


def role_credentials(metadata: AwsMetadata) -> Mapping[str, str]:
    """Return the credentials of the machine's role on EC2. Raises OSError with the missing part."""
    roles = (metadata.get(_ROLES) or "").splitlines()
    if not roles:
        raise OSError(
            "this machine has no role, so it cannot prove what it is: "
            "give the pool's `provider.iam_instance_profile_arn`"
        )
    keys = json_object(metadata.get(_ROLES + roles[0]) or "", "EC2's")
    if not keys.keys() >= {"AccessKeyId", "SecretAccessKey", "Token"}:
        cause = keys.get("Message") or keys.get("Code") or "nothing"
        raise OSError(f"the metadata service has no credentials of the role {roles[0]}: {cause}")
    return keys


def account_token(metadata: GcpMetadata) -> Mapping[str, Any]:
    """Return an access token of the machine's service account on Compute Engine. Raises OSError."""
    token = metadata.get(f"{_ACCOUNT}token")
    if token is None:
        raise OSError("this machine has no service account: give the pool's `service_account`")
    return {
        **json_object(token, "Google's"),
        "email": (metadata.get(f"{_ACCOUNT}email") or "default").strip(),
        "scopes": (metadata.get(f"{_ACCOUNT}scopes") or "").split(),
        "project": (metadata.get("project/project-id") or "").strip(),
    }


def json_object(text: str, service: str) -> Mapping[str, str]:
    try:
        body = json.loads(text)
    except ValueError as e:
        raise OSError(f"the metadata service is not {service}: {e}") from e
    if not isinstance(body, dict):
        raise OSError(f"the metadata service is not {service}: it says {text[:80]!r}")
    return body
