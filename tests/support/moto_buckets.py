"""Checks of bucket owners as in S3: the first account owns a name, and calls may state the expected owner."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pytest
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication

STRANGER = "999999999999"
_OWN_NAME = re.compile(r".+-(\d{12})-([a-z0-9-]+)-an")
_DENIED = (
    "403 Forbidden",
    b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
)
_BAD_NAME = (
    "400 Bad Request",
    b"<Error><Code>InvalidBucketName</Code><Message>The specified bucket is not valid.</Message></Error>",
)  # fmt: skip


@dataclass
class Ownership:
    """The calls to S3 about buckets: with the expected owner, and without it."""

    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    namespaces: dict[str, str] = field(default_factory=dict)  # of created buckets

    def taken_by_a_stranger(self, name: str, region: str = "us-west-2") -> None:
        """Create a public bucket that belongs to another account."""
        s3_backends[STRANGER]["aws"].create_bucket(name, region)


def owners_of_buckets(patch: pytest.MonkeyPatch) -> Ownership:
    """Make moto refuse calls with another expected owner, and names in another account's namespace."""
    ownership = Ownership()
    carry = DomainDispatcherApplication.__call__

    def minding(self: Any, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        refused = (
            _refusal(ownership, environ) if "/s3/aws4_request" in _credential(environ) else None
        )
        if refused is None:
            answer: Iterable[bytes] = carry(self, environ, start_response)
            return answer
        return _answer(start_response, *refused)

    patch.setattr(DomainDispatcherApplication, "__call__", minding)
    return ownership


def _refusal(ownership: Ownership, environ: Mapping[str, Any]) -> tuple[str, bytes] | None:
    bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
    call = f"{environ['REQUEST_METHOD']} {bucket}/{key}?{environ.get('QUERY_STRING', '')}"
    if not bucket:
        return None
    if environ["REQUEST_METHOD"] == "PUT" and not key and not environ.get("QUERY_STRING"):
        namespace = environ.get("HTTP_X_AMZ_BUCKET_NAMESPACE", "global")
        ownership.namespaces[bucket] = namespace
        is_own = _OWN_NAME.fullmatch(bucket) is not None
        return None if is_own == (namespace == "account-regional") else _BAD_NAME
    expected = environ.get("HTTP_X_AMZ_EXPECTED_BUCKET_OWNER", "")
    (ownership.checked if expected else ownership.unchecked).append(call)
    _, owner = s3_backends.bucket_accounts.get(bucket, ("aws", expected))
    return _DENIED if expected and owner != expected else None


def _credential(environ: Mapping[str, Any]) -> str:
    return str(environ.get("HTTP_AUTHORIZATION", ""))


def _answer(start_response: Callable[..., Any], status: str, body: bytes) -> list[bytes]:
    start_response(
        status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    )
    return [body]
