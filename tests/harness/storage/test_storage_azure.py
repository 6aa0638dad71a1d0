"""Azure's own client against a fake Blob service that supports only the requests of this project."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient
from determined.common import storage
from determined.common.storage import _transfer
from determined.common.storage._azure import AzureStorageManager

from tests.support.checkpoint_folders import checkpoint_in, contents, save
from tests.support.fake_azure import FakeAzure, serving

PART = 64 * 1024
WEIGHTS = 2 * PART + 17
# Azure's client leaves connections that the server closed to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeAzure:
    monkeypatch.setattr(_transfer, "PART_BYTES", PART)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return FakeAzure()


@pytest.fixture
def connection(fake: FakeAzure) -> Iterator[str]:
    with serving(fake) as connection_string:
        with BlobServiceClient.from_connection_string(connection_string) as client:
            client.create_container("models")
        yield connection_string


@pytest.fixture
def azure(connection: str) -> Iterator[AzureStorageManager]:
    config = {
        "type": "azure",
        "container": "models/team/runs",
        "connection_string": connection,
    }
    manager = storage.from_config(config)
    assert isinstance(manager, AzureStorageManager)
    yield manager
    manager.close()


def test_azure_returns_uploaded_files(azure: AzureStorageManager, tmp_path: Path) -> None:
    source = checkpoint_in(tmp_path, WEIGHTS)
    save(azure, source)
    azure.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    assert azure.list("uuid-1") == storage.list_directory(source)


def test_azure_lists_and_deletes_more_than_a_page(
    azure: AzureStorageManager, fake: FakeAzure, tmp_path: Path
) -> None:
    for n in range(230):
        (tmp_path / f"{n:03}.pt").write_text("x")
    azure.upload(tmp_path, "uuid-1")
    assert sorted(fake.blobs)[0] == "models/team/runs/uuid-1/000.pt"
    assert len(azure.list("uuid-1")) == 230
    assert list(azure.delete("uuid-1", ["[!0]*.pt", "0[!0]*.pt", "00[!7].pt"])) == ["007.pt"]
    assert azure.delete("uuid-1") == {}
    assert fake.blobs == {}


def test_azure_download_resumes_an_interrupted_one(
    azure: AzureStorageManager, fake: FakeAzure, tmp_path: Path
) -> None:
    source = checkpoint_in(tmp_path, WEIGHTS)
    save(azure, source)
    (tmp_path / "out").mkdir()
    half = (source / "weights.bin").read_bytes()[: 2 * PART]
    (tmp_path / "out" / "weights.bin.partial").write_bytes(half)
    fake.ranges.clear()
    azure.download("uuid-1", tmp_path / "out", lambda path: path == "weights.bin")
    assert contents(tmp_path / "out") == {"weights.bin": (source / "weights.bin").read_bytes()}
    assert [byte_range for byte_range in fake.ranges if not byte_range.startswith("bytes=0-")] == [
        f"bytes={2 * PART}-{2 * PART + 16}"
    ]


def test_every_azure_request_can_fail_once(
    azure: AzureStorageManager, fake: FakeAzure, tmp_path: Path
) -> None:
    problems: set[tuple[str, str]] = set()

    def first_time(method: str, target: str) -> bool:
        first = (method, target) not in problems
        problems.add((method, target))
        return first

    fake.breaks = first_time
    source = checkpoint_in(tmp_path, WEIGHTS)
    save(azure, source)
    azure.download("uuid-1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    assert azure.delete("uuid-1") == {}
    assert {method for method, _ in problems} == {"GET", "PUT", "DELETE"}


def test_large_azure_blob_appears_with_its_last_block(
    azure: AzureStorageManager, fake: FakeAzure, tmp_path: Path
) -> None:
    fake.breaks = lambda method, target: "comp=blocklist" in target
    with pytest.raises(Exception, match="onnection"):
        azure.upload(checkpoint_in(tmp_path, WEIGHTS), "uuid-1", ["weights.bin"])
    assert len(fake.blocks) == 3
    fake.breaks = lambda method, target: False
    assert azure.list("uuid-1") == {}


def test_error_names_missing_azure_blob(
    azure: AzureStorageManager, connection: str, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="checkpoint uuid-9 is not in ms://models"):
        azure.download("uuid-9", tmp_path / "out")
    config = {"type": "azure", "container": "nowhere", "connection_string": connection}
    manager = AzureStorageManager.from_config(config)
    with pytest.raises(FileNotFoundError, match="container nowhere does not exist"):
        manager.validate()
    with pytest.raises(FileNotFoundError, match="container nowhere does not exist"):
        manager.list("uuid-1")
    manager.close()


def test_rejected_azure_credentials_raise_permission_error(
    azure: AzureStorageManager, fake: FakeAzure
) -> None:
    fake.denied = True
    with pytest.raises(PermissionError, match="container models may not be used"):
        azure.validate()
