"""The stores of data sets: listings, and requests for objects. Requests carry credentials of the machine's role."""

import base64
import http.client
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlencode

from det_controlplane.core.datasets.sources import Source

from det_agent.credentials import MachineCredentials
from det_agent.data_objects import (
    LARGEST_MANIFEST,
    DataRefused,
    DataUnavailable,
    RemoteObject,
    checked,
    read_manifest,
)
from det_agent.data_web import Web

_GOOGLE = "https://storage.googleapis.com"
_MD5 = re.compile(r"[0-9a-f]{32}")
_PARTS = re.compile(r"[0-9a-f]{32}-\d+")
_FIELDS = "items(name,size,generation,md5Hash,crc32c),nextPageToken"


@dataclass(frozen=True)
class ObjectRequest:
    url: str
    headers: Mapping[str, str]
    version: str = ""  # the ETag or Last-Modified that the answer must have


class Store(Protocol):
    """A source of objects. Methods may be called from many threads."""

    def objects(self, source: Source) -> Iterator[RemoteObject]:
        """Yield the objects below a prefix, or the one with this name. Raises DataRefused and DataUnavailable."""

    def request(self, one: RemoteObject) -> ObjectRequest:
        """Return the request for an object. The store refuses it with 412 if the object has changed."""

    def part_size(self, one: RemoteObject) -> int:
        """Return the size of the first part of an object that was uploaded in parts; 0 if it is not known."""


@dataclass(frozen=True)
class StoreDependencies:
    web: Web
    credentials: Mapping[str, MachineCredentials]
    may_use_buckets: bool = True


def open_store(source: Source, agent: StoreDependencies) -> Store:
    """Return the store of a source. Raises DataRefused."""
    if source.is_web:
        return WebStore(agent.web)
    if not agent.may_use_buckets:
        raise DataRefused(
            f"{source} cannot be loaded: container_credentials of this agent is none, so tasks may not use the role"
            " of its machine"
        )
    if source.scheme == "s3":
        return S3Store(source.place, agent.credentials.get("aws"))
    return GoogleStore(source.place, agent.web, agent.credentials.get("gcp"))


def list_objects(source: Source, agent: StoreDependencies, store: Store) -> list[RemoteObject]:
    """Return the objects of a data set: from its manifest, or by a listing."""
    if not source.is_manifest:
        return checked(store.objects(source), source)
    manifest = next(iter(store.objects(source)))
    if manifest.size > LARGEST_MANIFEST:
        raise DataRefused(
            f"{source} has {manifest.size:,} bytes, more than {LARGEST_MANIFEST:,}, the limit of a manifest"
        )
    request = store.request(manifest)
    try:
        with agent.web.request("GET", request.url, request.headers) as response:
            raise_for_status(response, f"manifest {source}")
            body = response.read(LARGEST_MANIFEST + 1)
    except (OSError, http.client.HTTPException) as e:
        raise DataUnavailable(f"{source} cannot be read: {e}") from e
    if len(body) > LARGEST_MANIFEST:
        raise DataRefused(f"{source} is longer than {LARGEST_MANIFEST:,} bytes")
    return checked(read_manifest(body, source), source)


def raise_for_status(response: http.client.HTTPResponse, what: str) -> None:
    status = response.status
    if status in (200, 206):
        return
    if status == 404:
        raise DataRefused(f"{what} does not exist")
    if status in (401, 403):
        raise DataRefused(
            f"{what} may not be read by this agent ({status}): give the role of its machine read access"
        )
    if status >= 500 or status in (408, 429):
        raise DataUnavailable(f"the store answers {status} for {what}")
    raise DataRefused(f"the store refuses {what} with {status}: {response.read(200)!r}")


class S3Store:
    """A bucket of Amazon S3 or a compatible service, whose address AWS_ENDPOINT_URL_S3 of the agent gives."""

    def __init__(self, bucket: str, credentials: MachineCredentials | None) -> None:
        self._bucket = bucket
        self._client = _s3_client(credentials)

    def objects(self, source: Source) -> Iterator[RemoteObject]:
        if source.is_manifest:
            yield self._single(source)
            return
        prefix = f"{source.path}/" if source.path else ""
        token: dict[str, str] = {}
        is_empty = True
        while True:
            page = self._call("list_objects_v2", source, Prefix=prefix, **token)
            for item in page.get("Contents", []):
                if not item["Key"].endswith("/"):  # a placeholder for a folder
                    is_empty = False
                    yield _s3_object(item["Key"][len(prefix) :], item["Key"], item)
            if not page.get("IsTruncated"):
                break
            token = {"ContinuationToken": page["NextContinuationToken"]}
        if is_empty and source.path:
            yield self._single(source)

    def _single(self, source: Source) -> RemoteObject:
        head = self._call("head_object", source, Key=source.path)
        name = source.path.rpartition("/")[2]
        return _s3_object(name, source.path, {"Size": head["ContentLength"], "ETag": head["ETag"]})

    def request(self, one: RemoteObject) -> ObjectRequest:
        url = self._client.generate_presigned_url(
            "get_object", {"Bucket": self._bucket, "Key": one.key}, ExpiresIn=900
        )
        return ObjectRequest(url, {"If-Match": f'"{one.version}"'} if one.version else {})

    def part_size(self, one: RemoteObject) -> int:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            head = self._client.head_object(
                Bucket=self._bucket, Key=one.key, PartNumber=1, IfMatch=f'"{one.version}"'
            )
        except (BotoCoreError, ClientError):
            return 0  # the size and the version are still checked
        return int(head["ContentLength"])

    def _call(self, operation: str, source: Source, **arguments: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._client, operation)(Bucket=self._bucket, **arguments)
        except ClientError as e:
            raise self._translated(e, source) from e
        except BotoCoreError as e:
            raise DataUnavailable(f"S3 does not answer for {source}: {e}") from e

    def _translated(self, error: Any, source: Source) -> Exception:
        code = str(error.response.get("Error", {}).get("Code"))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
        if code == "NoSuchBucket":
            return DataRefused(
                f"bucket {self._bucket!r} of {source} does not exist: check its name"
            )
        if status == 404:
            return DataRefused(f"{source} has no objects: check its spelling")
        if status in (401, 403):
            return DataRefused(
                f"{source} may not be read by this agent ({code}): give the role of its machine s3:ListBucket and"
                f" s3:GetObject on bucket {self._bucket}"
            )
        if status >= 500 or status == 429:
            return DataUnavailable(f"S3 answers {status} for {source}: {error}")
        return DataRefused(f"S3 refuses {source}: {error}")


def _s3_object(path: str, key: str, item: Mapping[str, Any]) -> RemoteObject:
    tag = str(item["ETag"]).strip('"')
    check = f"md5:{tag}" if _MD5.fullmatch(tag) else f"parts:{tag}" if _PARTS.fullmatch(tag) else ""
    return RemoteObject(path, int(item["Size"]), key, tag, check)


def _s3_client(credentials: MachineCredentials | None) -> Any:
    import boto3
    import botocore.session
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.credentials import RefreshableCredentials

    session = botocore.session.get_session()
    if credentials is not None:

        def read() -> dict[str, str]:
            keys = credentials.current()
            names = ("access_key", "secret_key", "token", "expiry_time")
            return dict(
                zip(
                    names,
                    map(
                        keys.__getitem__, ("AccessKeyId", "SecretAccessKey", "Token", "Expiration")
                    ),
                    strict=True,
                )
            )

        session._credentials = RefreshableCredentials.create_from_metadata(
            read(), refresh_using=read, method="det-agent"
        )
    options: dict[str, Any] = {"retries": {"mode": "standard", "max_attempts": 4}}
    if session.get_credentials() is None:
        options["signature_version"] = UNSIGNED  # public buckets need none
    else:
        options["signature_version"] = "s3v4"
    config = Config(connect_timeout=10, read_timeout=30, **options)
    return boto3.session.Session(botocore_session=session).client("s3", config=config)


class GoogleStore:
    """A bucket of Google Cloud Storage, by its JSON API."""

    def __init__(self, bucket: str, web: Web, credentials: MachineCredentials | None) -> None:
        self._web = web
        self._bucket = bucket
        emulator = os.environ.get("STORAGE_EMULATOR_HOST")
        self._api = (emulator or _GOOGLE).rstrip("/")
        self._authorization = _google_authorization(credentials, needed=not emulator)

    def objects(self, source: Source) -> Iterator[RemoteObject]:
        if source.is_manifest:
            yield self._single(source)
            return
        prefix = f"{source.path}/" if source.path else ""
        query = {"prefix": prefix, "fields": _FIELDS, "maxResults": "1000"}
        is_empty = True
        while True:
            page = self._get_json(f"/storage/v1/b/{self._bucket}/o?{urlencode(query)}", source)
            for item in page.get("items", []):
                if not item["name"].endswith("/"):
                    is_empty = False
                    yield _google_object(item["name"][len(prefix) :], item)
            if not page.get("nextPageToken"):
                break
            query["pageToken"] = page["nextPageToken"]
        if is_empty and source.path:
            yield self._single(source)

    def _single(self, source: Source) -> RemoteObject:
        target = f"/storage/v1/b/{self._bucket}/o/{quote(source.path, safe='')}"
        item = self._get_json(target, source)
        return _google_object(source.path.rpartition("/")[2], item)

    def request(self, one: RemoteObject) -> ObjectRequest:
        target = f"/download/storage/v1/b/{self._bucket}/o/{quote(one.key, safe='')}?alt=media"
        if one.version:
            target += f"&ifGenerationMatch={one.version}"
        return ObjectRequest(self._api + target, self._authorization())

    def part_size(self, one: RemoteObject) -> int:
        return 0

    def _get_json(self, target: str, source: Source) -> Any:
        try:
            headers = self._authorization()
            with self._web.request("GET", self._api + target, headers) as response:
                if response.status == 404 and "/o?" in target:
                    raise DataRefused(
                        f"bucket {self._bucket!r} of {source} does not exist: check its name"
                    )
                raise_for_status(response, str(source))
                return json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise DataUnavailable(f"Google Cloud Storage does not answer for {source}: {e}") from e


def _google_object(path: str, item: Mapping[str, Any]) -> RemoteObject:
    check = ""
    if item.get("md5Hash"):
        check = f"md5:{_hex(item['md5Hash'])}"
    elif item.get("crc32c"):
        check = f"crc32c:{_hex(item['crc32c'])}"
    generation = str(item.get("generation") or "")
    return RemoteObject(path, int(item["size"]), item["name"], generation, check)


def _hex(text: str) -> str:
    return base64.b64decode(text).hex()


def _google_authorization(credentials: MachineCredentials | None, *, needed: bool) -> Any:
    """Return a function for the header with the machine's token. Public buckets need none."""
    from determined.common.storage._gcs_client import MachineToken, Refused

    if not needed:
        return dict
    if credentials is not None:
        return lambda: {"Authorization": f"Bearer {credentials.current()['access_token']}"}
    machine = MachineToken()

    def header() -> dict[str, str]:
        try:
            return {"Authorization": machine.header()}
        except Refused:
            return {}

    return header


class WebStore:
    """A file on a web server. The server must name its size and its version."""

    def __init__(self, web: Web) -> None:
        self._web = web

    def objects(self, source: Source) -> Iterator[RemoteObject]:
        url = str(source)
        try:
            with self._web.request("HEAD", url, {}) as response:
                raise_for_status(response, url)
                size, headers = response.getheader("Content-Length"), response.headers
        except (OSError, http.client.HTTPException) as e:
            raise DataUnavailable(f"{url} does not answer: {e}") from e
        version = headers.get("ETag") or headers.get("Last-Modified") or ""
        if size is None or not (version or source.is_manifest):
            raise DataRefused(
                f"the server of {url} gives neither an ETag nor Last-Modified, or no size: name a manifest with"
                " sha256 instead"
            )
        yield RemoteObject(unquote(source.path.rpartition("/")[2]), int(size), url, version)

    def request(self, one: RemoteObject) -> ObjectRequest:
        is_strong = one.version.startswith('"')
        return ObjectRequest(one.key, {"If-Match": one.version} if is_strong else {}, one.version)

    def part_size(self, one: RemoteObject) -> int:
        return 0
