"""A light client for the bytes of S3 objects, where boto3 spends more time than the network.

Requests are signed here (Signature Version 4) and sent over plain keep-alive connections. Whatever does not simply
succeed is left to boto3: its retries, redirects and messages stay.
"""

import datetime
import hashlib
import hmac
import http.client
import os
import ssl
import weakref
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote, urlsplit

from determined.common.storage._parts import FilePart

TIMEOUT_S = 60
READ_CHUNK = 1024 * 1024
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")

Body = Union[bytes, FilePart]


def open_direct(client: Any, bucket: str) -> "Optional[DirectObjects]":
    """Learn from a boto3 client where the bucket is and who we are; None behind a proxy."""
    credentials = client._request_signer._credentials
    if credentials is None or any(os.environ.get(name) for name in _PROXIES):
        return None
    probe = client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    base = probe.partition("?")[0][: -len("k")]
    region = client.meta.region_name or "us-east-1"
    return DirectObjects(base, "us-east-1" if region == "aws-global" else region, credentials)


class DirectObjects:
    """Keep-alive connections to one bucket. None as an answer means "ask boto3"."""

    def __init__(self, base_url: str, region: str, credentials: Any) -> None:
        parts = urlsplit(base_url)
        self._secure = parts.scheme == "https"
        self._host = parts.netloc
        self._path = parts.path
        self._region = region
        self._credentials = credentials
        # The one used last is taken first, so that few stay alive when few are needed.
        self._idle: List[http.client.HTTPConnection] = []
        weakref.finalize(self, _close_all, self._idle)
        self._tls = _tls_context() if self._secure else None
        self._signing_key: Tuple[str, str, bytes] = ("", "", b"")

    def put(self, key: str, body: Body, query: Optional[Mapping[str, str]] = None) -> Optional[str]:
        """Store an object, or one part of it; its tag."""
        answer = self._send("PUT", key, body, query or {}, {})
        if answer is None:
            return None
        self._read_whole(answer)
        return answer.response.getheader("ETag") if answer.response.status == 200 else None

    def get(self, key: str) -> Optional[bytes]:
        answer = self._send("GET", key, None, {}, {})
        if answer is None:
            return None
        body = self._read_whole(answer)
        return body if answer.response.status == 200 else None

    def get_range(self, key: str, start: int, length: int) -> Optional[Iterator[bytes]]:
        wanted = {"range": f"bytes={start}-{start + length - 1}"}
        answer = self._send("GET", key, None, {}, wanted)
        if answer is None:
            return None
        # Some servers answer a range with 200, but say which range it is.
        if answer.response.getheader("Content-Range") is None:
            self._read_whole(answer)
            return None
        return self._stream(answer)

    def close(self) -> None:
        _close_all(self._idle)

    def _send(
        self,
        method: str,
        key: str,
        body: Optional[Body],
        query: Mapping[str, str],
        extra: Mapping[str, str],
    ) -> "Optional[_Answer]":
        path = self._path + quote(key, safe="/-_.~")
        canonical = "&".join(f"{_quoted(k)}={_quoted(query[k])}" for k in sorted(query))
        headers = {**self._signed_headers(method, path, canonical, body), **extra}
        connection = self._take_connection()
        try:
            target = f"{path}?{canonical}" if canonical else path
            if isinstance(body, FilePart):
                headers["content-length"] = str(len(body))
                connection.request(method, target, body=body.pieces(), headers=headers)
            else:
                connection.request(method, target, body=body, headers=headers)
            return _Answer(connection, connection.getresponse())
        except (OSError, http.client.HTTPException):
            connection.close()
            return None

    def _read_whole(self, answer: "_Answer") -> Optional[bytes]:
        try:
            body = answer.response.read()
        except (OSError, http.client.HTTPException):
            answer.close()
            return None
        self._idle.append(answer.connection)
        return body

    def _stream(self, answer: "_Answer") -> Iterator[bytes]:
        complete = False
        try:
            yield from iter(lambda: answer.response.read(READ_CHUNK), b"")
            complete = True
        finally:
            # Half-read, a connection cannot carry the next request.
            if complete:
                self._idle.append(answer.connection)
            else:
                answer.close()

    def _take_connection(self) -> http.client.HTTPConnection:
        try:
            return self._idle.pop()
        except IndexError:
            pass
        if self._tls is None:
            return http.client.HTTPConnection(self._host, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection(self._host, timeout=TIMEOUT_S, context=self._tls)

    def _signed_headers(
        self, method: str, path: str, query: str, body: Optional[Body]
    ) -> Dict[str, str]:
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
        request = "\n".join((method, path, query, lines, names, headers["x-amz-content-sha256"]))
        scope = f"{now:%Y%m%d}/{self._region}/s3/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        to_sign = "\n".join(("AWS4-HMAC-SHA256", headers["x-amz-date"], scope, digest))
        key = self._key_for(frozen.secret_key, f"{now:%Y%m%d}")
        signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={frozen.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}"
        )
        return headers

    def _payload_hash(self, body: Optional[Body]) -> str:
        if body is None:
            return _EMPTY_SHA256
        if self._secure:
            return "UNSIGNED-PAYLOAD"  # TLS protects the body already, as boto3 reasons too
        digest = hashlib.sha256()
        for piece in body.pieces() if isinstance(body, FilePart) else (body,):
            digest.update(piece)
        return digest.hexdigest()

    def _key_for(self, secret: str, day: str) -> bytes:
        """The signing key of a day; it costs four HMACs, so it is kept."""
        if self._signing_key[:2] != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                key = hmac.new(key, part.encode(), hashlib.sha256).digest()
            self._signing_key = (secret, day, key)
        return self._signing_key[2]


class _Answer(NamedTuple):
    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse

    def close(self) -> None:
        self.response.close()  # it holds the socket open, too
        self.connection.close()


def _close_all(connections: List[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _quoted(value: str) -> str:
    return quote(value, safe="-_.~")


def _tls_context() -> ssl.SSLContext:
    bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    if bundle:
        return ssl.create_default_context(cafile=bundle)
    from botocore.httpsession import get_cert_path

    return ssl.create_default_context(cafile=get_cert_path(True))
