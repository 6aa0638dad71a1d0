"""A light client for small S3 objects, where boto3 spends more time than the network.

obstore is used where it is installed. Otherwise requests are signed here (Signature Version 4) and sent over plain
keep-alive connections. Whatever does not simply succeed is left to boto3: its retries, redirects and messages stay.
"""

import datetime
import hashlib
import hmac
import http.client
import os
import ssl
import threading
from typing import Any, Dict, Mapping, Optional, Protocol, Tuple
from urllib.parse import quote, urlsplit

TIMEOUT_S = 60
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


class SmallObjects(Protocol):
    """False or None means "not done, ask boto3"."""

    def put(self, key: str, body: bytes) -> bool: ...

    def get(self, key: str) -> Optional[bytes]: ...


def open_small_objects(
    client: Any, bucket: str, config: Mapping[str, Any]
) -> Optional[SmallObjects]:
    credentials = client._request_signer._credentials
    if credentials is None or any(os.environ.get(name) for name in _PROXIES):
        return None
    probe = client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    base = probe.partition("?")[0][: -len("k")]
    region = client.meta.region_name or "us-east-1"
    if region == "aws-global":
        region = "us-east-1"
    return SignedObjects(base, region, credentials)


class SignedObjects:
    """One connection per thread to one bucket."""

    def __init__(self, base_url: str, region: str, credentials: Any) -> None:
        parts = urlsplit(base_url)
        self._secure = parts.scheme == "https"
        self._host = parts.netloc
        self._path = parts.path
        self._region = region
        self._credentials = credentials
        self._local = threading.local()
        self._tls = _tls_context() if self._secure else None
        self._signing_key: Tuple[str, str, bytes] = ("", "", b"")

    def put(self, key: str, body: bytes) -> bool:
        return self._send("PUT", key, body) is not None

    def get(self, key: str) -> Optional[bytes]:
        return self._send("GET", key, None)

    def _send(self, method: str, key: str, body: Optional[bytes]) -> Optional[bytes]:
        path = self._path + quote(key, safe="/-_.~")
        headers = self._signed_headers(method, path, body)
        connection = getattr(self._local, "connection", None) or self._connect()
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            answer: bytes = response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return None
        return answer if response.status == 200 else None

    def _connect(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._tls is not None:
            connection = http.client.HTTPSConnection(
                self._host, timeout=TIMEOUT_S, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(self._host, timeout=TIMEOUT_S)
        self._local.connection = connection
        return connection

    def _signed_headers(self, method: str, path: str, body: Optional[bytes]) -> Dict[str, str]:
        frozen = self._credentials.get_frozen_credentials()
        now = datetime.datetime.now(datetime.timezone.utc)
        headers = {
            "host": self._host,
            "x-amz-content-sha256": self._payload_hash(body),
            "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ"),
        }
        if frozen.token:
            headers["x-amz-security-token"] = frozen.token
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = "\n".join(
            (method, path, "", lines, names, headers["x-amz-content-sha256"])
        ).encode()
        scope = f"{now:%Y%m%d}/{self._region}/s3/aws4_request"
        to_sign = "\n".join(
            ("AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(request).hexdigest())
        )
        key = self._key_for(frozen.secret_key, f"{now:%Y%m%d}")
        signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={frozen.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}"
        )
        return headers

    def _payload_hash(self, body: Optional[bytes]) -> str:
        if body is None:
            return _EMPTY_SHA256
        # TLS protects the body already, as boto3 reasons too.
        return "UNSIGNED-PAYLOAD" if self._secure else hashlib.sha256(body).hexdigest()

    def _key_for(self, secret: str, day: str) -> bytes:
        """The signing key of a day; it costs four HMACs, so it is kept."""
        if self._signing_key[:2] != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = hmac.new(key, part.encode(), hashlib.sha256).digest()
            self._signing_key = (secret, day, key)
        return self._signing_key[2]


def _tls_context() -> ssl.SSLContext:
    bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    if bundle:
        return ssl.create_default_context(cafile=bundle)
    from botocore.httpsession import get_cert_path

    return ssl.create_default_context(cafile=get_cert_path(True))
