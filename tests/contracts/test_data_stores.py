"""The contract of all stores of data sets: S3 (moto), Google Cloud Storage (emulator) and web servers."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from det_agent import data_checksums, data_transfer
from det_agent.data_cache import DataCache
from det_agent.data_sets import DataSets
from det_agent.data_stores import S3Store, StoreDependencies
from det_agent.data_web import Web
from det_agent.runtime import ContainerKey, StartFailed
from det_controlplane.core.agent_protocol import DataSetMount
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests.support.fake_gcs import FakeGCS, serving
from tests.support.object_server import object_server

FILES = {"a.bin": b"first", "deep/er/b.bin": bytes(range(256)) * 3, "empty": b""}
KEY = ContainerKey("one", 1, "allocation", "task")


@dataclass
class Subject:
    """A store with a function that puts an object, and the address of its prefix `set`."""

    put: Callable[[str, bytes], object]
    address: str
    missing_bucket: str


@pytest.fixture
def s3(moto_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Subject:
    bucket = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:20]
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto_url)
    client = boto3.client("s3")
    where = {"LocationConstraint": "us-west-2"}
    client.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)

    def put(key: str, body: bytes) -> None:
        client.put_object(Bucket=bucket, Key=key, Body=body)

    return Subject(put, f"s3://{bucket}/set", "s3://no-such-bucket/set")


@pytest.fixture
def gs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Subject]:
    with serving(FakeGCS()) as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        client = storage.Client(project="p", credentials=AnonymousCredentials())
        bucket = client.create_bucket("data-bucket")

        def put(key: str, body: bytes) -> None:
            bucket.blob(key).upload_from_string(body, "application/octet-stream")

        yield Subject(put, "gs://data-bucket/set", "gs://no-such-bucket/set")


@pytest.fixture(params=["s3", "gs"])
def subject(request: pytest.FixtureRequest) -> Subject:
    chosen: Subject = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataSets]:
    monkeypatch.setattr(data_transfer, "RANGE_BYTES", 100)
    cache = DataCache(tmp_path / "cache", 10**6)
    opened = DataSets(cache, StoreDependencies(Web(may_use_loopback=True), {}), lambda: None)
    yield opened
    opened.close()
    cache.close()


def load(sets: DataSets, source: str) -> dict[str, bytes]:
    mount = DataSetMount(source, "/data")
    prepared = sets.prepare(KEY, [mount], lambda line: None, lambda: False)
    root = Path(prepared.folders["/data"])
    content = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    sets.release(KEY)
    return content


def fill(subject: Subject) -> None:
    for name, body in FILES.items():
        subject.put(f"set/{name}", body)
    subject.put("settings", b"not below the prefix")


def test_prefix_is_a_directory_of_its_objects(subject: Subject, sets: DataSets) -> None:
    fill(subject)
    assert load(sets, subject.address) == FILES
    report = sets.report()
    assert report is not None
    assert report.sets[0].bytes == sum(map(len, FILES.values()))


def test_object_is_a_directory_with_one_file(subject: Subject, sets: DataSets) -> None:
    fill(subject)
    assert load(sets, f"{subject.address}/a.bin") == {"a.bin": b"first"}


def test_changed_object_is_loaded_again_and_the_others_are_not(
    subject: Subject, sets: DataSets
) -> None:
    fill(subject)
    load(sets, subject.address)
    subject.put("set/a.bin", b"FIRST")
    assert load(sets, subject.address)["a.bin"] == b"FIRST"


def test_manifest_names_some_objects(subject: Subject, sets: DataSets) -> None:
    fill(subject)
    digest = hashlib.sha256(b"first").hexdigest()
    entry = {"path": "a.bin", "size": 5, "sha256": digest}
    subject.put("set/manifest.json", json.dumps({"files": [entry]}).encode())
    assert load(sets, f"{subject.address}/manifest.json") == {"a.bin": b"first"}


def test_unknown_bucket_is_a_sentence(subject: Subject, sets: DataSets) -> None:
    with pytest.raises(StartFailed, match=r"'no-such-bucket' of .* does not exist") as e:
        load(sets, subject.missing_bucket)
    assert e.value.failure == "container_failed"


def test_empty_prefix_is_a_sentence(subject: Subject, sets: DataSets) -> None:
    fill(subject)
    with pytest.raises(StartFailed) as e:
        load(sets, subject.address.replace("set", "sat"))
    assert e.value.failure == "container_failed"


def test_upload_in_parts_is_verified(s3: Subject, sets: DataSets, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(data_transfer, "RANGE_BYTES", 2**20)
    client = boto3.client("s3")
    names = {"Bucket": s3.address.split("/")[2], "Key": "set/parts"}
    upload = client.create_multipart_upload(**names)["UploadId"]
    bodies = [b"x" * 5 * 2**20, b"y" * 100]
    parts = [
        {"PartNumber": n, "ETag": client.upload_part(**names, UploadId=upload, PartNumber=n, Body=body)["ETag"]}
        for n, body in enumerate(bodies, 1)
    ]  # fmt: skip
    client.complete_multipart_upload(**names, UploadId=upload, MultipartUpload={"Parts": parts})
    sets._cache._limit = 10**8
    # Amazon S3 answers a HEAD for part 1 with the length of the part; moto does not.
    monkeypatch.setattr(S3Store, "part_size", lambda self, one: 5 * 2**20)
    checked: list[str] = []
    original = data_checksums.checksum_for

    def spy(check: str, size: int, part_size: int) -> data_checksums.Checksum | None:
        checksum = original(check, size, part_size)
        checked.append("" if checksum is None else check.partition(":")[0])
        return checksum

    monkeypatch.setattr("det_agent.data_transfer.checksum_for", spy)
    assert load(sets, s3.address) == {"parts": b"".join(bodies)}
    assert checked == ["parts"]


def test_denied_access_to_s3_names_the_rights(
    s3: Subject, sets: DataSets, monkeypatch: pytest.MonkeyPatch
) -> None:
    with object_server() as server:
        server.statuses["/" + s3.address.split("/")[2]] = 403
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        with pytest.raises(StartFailed, match="s3:ListBucket and s3:GetObject on bucket"):
            load(sets, s3.address)


def test_buckets_are_closed_for_agents_without_credentials_for_containers(tmp_path: Path) -> None:
    cache = DataCache(tmp_path / "cache", 10**6)
    stores = StoreDependencies(Web(may_use_loopback=True), {}, may_use_buckets=False)
    sets = DataSets(cache, stores, lambda: None)
    with pytest.raises(StartFailed, match="container_credentials of this agent is none"):
        load(sets, "s3://data-bucket/set")
    sets.close()
    cache.close()
