"""The contract of all object stores."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import boto3
import pytest
from det_controlplane.adapters.directory_objects import BadKey, DirectoryObjects
from det_controlplane.adapters.gcs_objects import GcsObjects
from det_controlplane.adapters.s3_objects import S3Objects
from det_controlplane.api.app import App
from det_controlplane.api.router import Router
from det_controlplane.entry.aws.events import respond
from det_controlplane.entry.server.object_routes import object_routes
from det_controlplane.ports.files import ObjectStore
from det_controlplane.services.context import Context, Host
from google.auth.credentials import AnonymousCredentials, Signing
from google.auth.crypt import RSASigner
from google.cloud import storage

from tests.support.apps import HostContext
from tests.support.fake_gcs import FakeGCS, serving
from tests.support.keys import rsa_key
from tests.support.lambda_events import Http, http_api_event


@dataclass
class Subject:
    """A store, and a client that sends PUT to its upload URLs and returns the status."""

    store: ObjectStore
    upload: Callable[[str, bytes], int]


@pytest.fixture(params=["directory", "s3", "gcs"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    if request.param == "directory":
        return directory_subject(tmp_path)
    if request.param == "gcs":
        return gcs_subject(request.getfixturevalue("gcs_url"))
    return s3_subject(request.getfixturevalue("moto_url"), tmp_path.name.replace("_", "-").lower())


@pytest.fixture
def gcs_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serving(FakeGCS()) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        yield address


def gcs_subject(endpoint: str) -> Subject:
    client = storage.Client(project="p", credentials=Signer())
    client.create_bucket("bucket")
    return Subject(GcsObjects("bucket", prefix="cluster/one", client=client), put)


class Signer(AnonymousCredentials, Signing):  # type: ignore[misc]
    """An account with its own key. The emulator needs no token."""

    signer = None
    signer_email = "api@project.iam.gserviceaccount.com"

    def __init__(self) -> None:
        super().__init__()
        self._key = RSASigner(rsa_key("account"))

    def sign_bytes(self, message: bytes) -> bytes:
        return bytes(self._key.sign(message))


def directory_subject(folder: Path, now: Callable[[], float] = lambda: 1000.0) -> Subject:
    store = DirectoryObjects(folder, b"secret", clock=now)
    app = App(cast(Context, HostContext(Host(may_wait_s=0))), Router(object_routes(store)))

    def upload(url: str, body: bytes) -> int:
        assert url.startswith("/objects/"), "callers reach the API by several addresses"
        return int(respond(app, http_api_event(Http("PUT", url, body)))["statusCode"])

    return Subject(store, upload)


def s3_subject(endpoint: str, bucket: str) -> Subject:
    boto3.client("s3", endpoint_url=endpoint).create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
    )

    return Subject(S3Objects(bucket, prefix="cluster/one", endpoint_url=endpoint), put)


def put(url: str, body: bytes) -> int:
    request = urllib.request.Request(url, data=body, method="PUT")
    request.add_header("Content-Type", "")
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as e:
        with e:
            return e.code


def test_objects_can_be_read_measured_replaced_and_deleted(subject: Subject) -> None:
    store = subject.store
    store.put("contexts/a.tgz", b"\x00first")
    store.put("contexts/a.tgz", b"second")
    assert store.get("contexts/a.tgz") == b"second"
    assert store.size("contexts/a.tgz") == 6
    store.delete("contexts/a.tgz")
    assert store.get("contexts/a.tgz") is None


def test_missing_object_is_none_and_can_be_deleted(subject: Subject) -> None:
    assert subject.store.get("contexts/none") is None
    assert subject.store.size("contexts/none") is None
    subject.store.delete("contexts/none")


def test_upload_url_stores_the_object(subject: Subject) -> None:
    url = subject.store.upload_url("contexts/b.tgz", 5, expires_s=60)
    assert subject.upload(url, b"bytes") == 200
    assert subject.store.get("contexts/b.tgz") == b"bytes"


def test_download_url_returns_the_object(subject: Subject) -> None:
    subject.store.put("contexts/d.tgz", b"\x00code")
    url = subject.store.download_url("contexts/d.tgz", expires_s=60)
    if isinstance(subject.store, DirectoryObjects):
        assert url == "", "the API carries what lies in its own directory"
        return
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"\x00code"


def test_upload_url_is_signed_for_one_size(subject: Subject) -> None:
    url = subject.store.upload_url("contexts/c.tgz", 5, expires_s=60)
    has_size = "content-length" in url or "size=5" in url
    assert has_size, url


@pytest.mark.parametrize("body", [b"", b"four", b"sixsix"])
def test_directory_rejects_another_size(tmp_path: Path, body: bytes) -> None:
    subject = directory_subject(tmp_path)
    assert subject.upload(subject.store.upload_url("k", 5, expires_s=60), body) == 403
    assert subject.store.get("k") is None


def test_directory_rejects_forged_and_expired_urls(tmp_path: Path) -> None:
    now = [1000.0]
    subject = directory_subject(tmp_path, lambda: now[0])
    url = subject.store.upload_url("k", 1, expires_s=60)
    assert subject.upload(url.replace("/k?", "/other?"), b"x") == 403
    assert subject.upload(url.replace("size=1", "size=2"), b"xx") == 403
    assert subject.upload(url.replace("expires=1060", "expires=9999"), b"x") == 403
    assert subject.upload(url.partition("?")[0], b"x") == 403
    now[0] = 1061.0
    assert subject.upload(url, b"x") == 403
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["../x", "/etc/x", "a/../b", "", "a//b", ".hidden", "a/.b", "a\0b"])
def test_directory_rejects_keys_that_leave_it(tmp_path: Path, key: str) -> None:
    store = DirectoryObjects(tmp_path / "inside", b"secret")
    with pytest.raises(BadKey):
        store.put(key, b"x")
    with pytest.raises(BadKey):
        store.get(key)
