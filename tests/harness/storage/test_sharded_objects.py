"""Sharded checkpoints on S3 and on Google Cloud Storage: saved on some ranks, loaded on others, and refused."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from google.cloud import storage as google_storage
from moto.server import DomainDispatcherApplication

from tests.support import gang, ml
from tests.support.fake_gcs import FakeGCS, serving
from tests.support.moto import moto_server

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[1] / "checkpointing" / "sharded_script.py"
# No rank may write a file of more bytes, so shards cannot pass through a directory.
FILE_LIMIT = {"FILE_LIMIT": "16384"}
MIB = 1024 * 1024
DENIED = (
    b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
    "403 Forbidden",
)


@dataclass
class Bucket:
    """A bucket of a cloud, as ranks use it and as a test sees it."""

    config: str
    environment: Mapping[str, str]
    read: Callable[[str], bytes]
    write: Callable[[str, bytes], None]
    delete: Callable[[str], None]
    stored_keys: Callable[[], list[str]]
    deny: Callable[[bool], None]
    url: str
    requests: Callable[[], list[str]]

    def key(self, uuid: str, name: str) -> str:
        return f"team/{uuid}/{name}"


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    modules = (
        "torch.distributed.fsdp",
        "torch.distributed.checkpoint.state_dict",
        "determined.checkpointing._async",
        "determined.checkpointing._sharded",
        "boto3",
    )
    with ml.forks(ml.require("ml"), tmp_path_factory.mktemp("forks"), *modules) as processes:
        yield processes


@pytest.fixture(scope="module", params=["s3", "gcs"])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    with ExitStack() as stack:
        yield {"s3": _s3, "gcs": _gcs}[request.param](stack)


def _s3(stack: ExitStack) -> Bucket:
    endpoint = stack.enter_context(moto_server("us-east-1"))
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    calls: list[str] = []
    denied: list[bool] = []
    answer = DomainDispatcherApplication.__call__

    def observed(self: Any, environ: dict[str, Any], start_response: Any) -> Any:
        calls.append(f"{environ['REQUEST_METHOD']} {environ.get('QUERY_STRING', '')}")
        if denied:
            body, status = DENIED
            start_response(status, [("Content-Type", "application/xml")])
            return [body]
        return answer(self, environ, start_response)

    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="models")
    patch.setattr(DomainDispatcherApplication, "__call__", observed)
    config = {"type": "s3", "bucket": "models", "prefix": "team", "endpoint_url": endpoint}

    def keys() -> list[str]:
        return [i["Key"] for i in client.list_objects_v2(Bucket="models").get("Contents", [])]

    return Bucket(
        json.dumps(config | {"access_key": "testing", "secret_key": "testing"}),
        {},
        lambda key: client.get_object(Bucket="models", Key=key)["Body"].read(),
        lambda key, body: client.put_object(Bucket="models", Key=key, Body=body),
        lambda key: client.delete_object(Bucket="models", Key=key),
        keys,
        lambda deny: denied.append(True) if deny else denied.clear(),
        "s3://models",
        lambda: calls,
    )


def _gcs(stack: ExitStack) -> Bucket:
    fake = FakeGCS()
    address = stack.enter_context(serving(fake))
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setenv("STORAGE_EMULATOR_HOST", address)
    client = google_storage.Client()
    models = client.create_bucket("models")

    def deny(deny: bool) -> None:
        fake.refuses = lambda method, target: deny

    return Bucket(
        json.dumps({"type": "gcs", "bucket": "models", "prefix": "team"}),
        {"STORAGE_EMULATOR_HOST": address},
        lambda key: models.blob(key).download_as_bytes(),
        lambda key, body: models.blob(key).upload_from_string(body),
        lambda key: models.blob(key).delete(),
        lambda: [blob.name for blob in client.list_blobs("models")],
        deny,
        "gs://models",
        lambda: [f"{method} {target}" for method, target in fake.requests],
    )


Run = Callable[..., Any]


@pytest.fixture
def run(forks: ml.Forks, bucket: Bucket, tmp_path: Path) -> Run:
    """Return a function that runs a mode of the script on some ranks."""
    return lambda ranks, mode, *checkpoint, **env: gang.run(
        forks,
        SCRIPT,
        ranks,
        tmp_path / f"{mode}-{ranks}",
        mode,
        bucket.config,
        *checkpoint,
        **{**bucket.environment, **env},
    )


@pytest.fixture(params=["save", "async"])
def saved(request: pytest.FixtureRequest, run: Run) -> Any:
    return run(4, request.param)


@pytest.fixture
def stored(run: Run) -> str:
    return str(run(2, "save")["uuid"])


def test_shards_of_four_ranks_load_on_other_numbers_of_ranks(saved: Any, run: Run) -> None:
    assert saved["states"] == {saved["uuid"]: "completed"}
    for ranks, mode in ((1, "load-plain"), (2, "load"), (6, "load")):
        loaded = run(ranks, mode, saved["uuid"], **FILE_LIMIT)
        assert loaded.get("values") == saved["values"], (ranks, loaded.get("error"))


def test_ranks_write_no_files(run: Run, bucket: Bucket) -> None:
    saved = run(2, "save", **FILE_LIMIT)
    assert saved["states"] == {saved["uuid"]: "completed"}, saved.get("error")
    names = {key.rpartition("/")[2] for key in bucket.stored_keys() if saved["uuid"] in key}
    assert names == {
        ".checksums.json", ".metadata", "metadata.json", "__0_0.distcp", "__1_0.distcp"
    }  # fmt: skip


def test_large_shards_are_sent_in_parts(run: Run, bucket: Bucket) -> None:
    mark, part = {"s3://models": ("partNumber=3", 5 * MIB), "gs://models": ("compose", MIB // 4)}[
        bucket.url
    ]
    large = {"PART_BYTES": str(part)}
    saved = run(2, "save", **FILE_LIMIT, **large)
    assert len([call for call in bucket.requests() if mark in call]) >= 2, "one for each rank"
    assert not [key for key in bucket.stored_keys() if ".part-" in key]
    for ranks in (1, 3):
        loaded = run(ranks, "load", saved["uuid"], **FILE_LIMIT, **large)
        assert loaded.get("values") == saved["values"], loaded.get("error")


@pytest.mark.parametrize("mode", ["save", "async"])
def test_denied_bucket_refuses_a_checkpoint(run: Run, bucket: Bucket, mode: str) -> None:
    before = bucket.stored_keys()
    bucket.deny(True)
    try:
        refused = run(2, mode)
    finally:
        bucket.deny(False)
    assert "may not be used with these credentials" in refused["error"]
    assert refused["error"].count(f"{bucket.url}/team/") == (1 if mode == "async" else 2)
    assert "Traceback" not in refused["error"]
    assert bucket.stored_keys() == before


def test_denied_bucket_refuses_to_load(run: Run, bucket: Bucket, stored: str) -> None:
    bucket.deny(True)
    try:
        refused = run(2, "load", stored)
    finally:
        bucket.deny(False)
    assert refused["error"].startswith(
        "RuntimeError: the sharded checkpoint failed on ranks 0 and 1: "
    )
    assert "may not be used with these credentials" in refused["error"]


def test_missing_shard_is_named(run: Run, bucket: Bucket, stored: str) -> None:
    bucket.delete(bucket.key(stored, "__1_0.distcp"))
    refused = run(1, "load", stored)
    place = f"{bucket.url}/{bucket.key(stored, '__1_0.distcp')}"
    assert f"failed on rank 0: {place} does not exist" in refused["error"]


def test_missing_checkpoint_is_named(run: Run, bucket: Bucket) -> None:
    refused = run(1, "load", "no-such-checkpoint")
    assert "checkpoint no-such-checkpoint has no files at" in refused["error"]
    assert "was it deleted?" in refused["error"]


@pytest.mark.parametrize("rest", [0, 3000])
def test_truncated_shard_is_named(run: Run, bucket: Bucket, stored: str, rest: int) -> None:
    key = bucket.key(stored, "__0_0.distcp")
    bucket.write(key, bucket.read(key)[:rest])
    refused = run(1, "load", stored)
    assert f"{bucket.url}/{key}" in refused["error"]
    assert "is shorter than when it was saved" in refused["error"] or (
        "that were saved" in refused["error"]
    )


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata"])
def test_changed_byte_is_found(run: Run, bucket: Bucket, stored: str, name: str) -> None:
    key = bucket.key(stored, name)
    body = bytearray(bucket.read(key))
    at = body.index(b"data/0") + 200 if name != ".metadata" else len(body) // 2
    body[at] ^= 1
    bucket.write(key, bytes(body))
    refused = run(1, "load", stored)
    assert f"of {bucket.url}/{key} differ from what was saved" in refused["error"]
