"""Names with which Determined's users catch errors of the API and sign in."""

from determined.common.api import authentication, bindings, certs, errors
from determined.common.api._session import (
    BaseSession,
    Session,
    TaskSession,
    UnauthSession,
    canonicalize_master_url,
    get_default_master_url,
)
from determined.common.api.authentication import salt_and_hash

__all__ = [
    "BaseSession",
    "Session",
    "TaskSession",
    "UnauthSession",
    "authentication",
    "bindings",
    "canonicalize_master_url",
    "certs",
    "errors",
    "get_default_master_url",
    "salt_and_hash",
]
