"""The client for images without google-cloud-storage: the machine's account, errors and pages."""

import sys
from collections.abc import Iterator

import pytest
from determined.common.storage import _gcs, _gcs_client

from tests.support.fake_master import FakeMaster, Request

OBJECTS = "/storage/v1/b/models/o"


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    """Start a fake of Cloud Storage and the metadata server."""
    server = FakeMaster()
    monkeypatch.setattr(_gcs_client, "_API", server.url)
    monkeypatch.setenv("GCE_METADATA_HOST", server.url.removeprefix("http://"))
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)
    yield server
    server.close()


def give_tokens(google: FakeMaster, expires_in: int) -> None:
    tokens = (f"token-{n}" for n in range(1, 9))
    answer = {"expires_in": expires_in, "token_type": "Bearer"}
    google.on(
        "GET", _gcs_client._TOKEN_PATH, lambda _: (200, {**answer, "access_token": next(tokens)})
    )


def store() -> _gcs.GCSStore:
    return _gcs.GCSStore(_gcs_client.Client(), "models")


def used_tokens(google: FakeMaster) -> list[str]:
    return [r.headers["Authorization"] for r in google.requests if r.path == OBJECTS]


def test_machine_token_is_reused_until_shortly_before_expiry(google: FakeMaster) -> None:
    give_tokens(google, expires_in=3600)
    client = store()
    for _ in range(2):
        assert list(client.list("a/")) == []
    give_tokens(google, expires_in=60)
    short = store()
    for _ in range(2):
        list(short.list("a/"))
    assert used_tokens(google) == ["Bearer token-1"] * 2 + ["Bearer token-1", "Bearer token-2"]
    request = next(r for r in google.requests if r.path == _gcs_client._TOKEN_PATH)
    assert request.headers["Metadata-Flavor"] == "Google"


def test_rejected_token_is_renewed_once(google: FakeMaster) -> None:
    give_tokens(google, expires_in=3600)

    def only_the_second(request: Request) -> tuple[int, object]:
        is_good = request.headers["Authorization"] == "Bearer token-2"
        return (200, {}) if is_good else (401, {"error": {"message": "Invalid Credentials"}})

    google.on("GET", OBJECTS, only_the_second)
    assert list(store().list("a/")) == []


def test_listing_continues_after_a_failed_page(google: FakeMaster) -> None:
    give_tokens(google, expires_in=3600)
    first = {"items": [{"name": "a/1", "size": "5"}], "nextPageToken": "p2"}
    answers = iter([(200, first), *[(503, {})] * 4, (200, {"items": [{"name": "a/2", "size": 7}]})])
    google.on("GET", OBJECTS, lambda _: next(answers))
    pages = _gcs_client.Client().list_blobs("models", "a/").pages
    assert [(b.name, b.size) for b in next(pages)] == [("a/1", 5)]
    with pytest.raises(OSError, match="answers 503"):
        next(pages)
    assert [(b.name, b.size) for b in next(pages)] == [("a/2", 7)]
    assert next(pages, None) is None
    assert "pageToken=p2" in google.requests[-1].query


@pytest.mark.parametrize(("status", "error"), [(403, PermissionError), (404, FileNotFoundError)])
def test_errors_name_the_object_and_are_not_retried(
    google: FakeMaster, status: int, error: type[OSError]
) -> None:
    give_tokens(google, expires_in=3600)
    google.on("GET", "/download.*", (status, {"error": {"message": "no storage.objects.get"}}))
    with pytest.raises(error, match="gs://models/a/1"):
        store().get("a/1")
    assert sum(r.path.startswith("/download") for r in google.requests) == 1


def test_error_without_account_names_the_library(
    monkeypatch: pytest.MonkeyPatch, google: FakeMaster
) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")
    with pytest.raises(PermissionError, match="pip install google-cloud-storage"):
        store().get("a/1")


def test_key_files_require_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud", None)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/key.json")
    with pytest.raises(RuntimeError, match="GOOGLE_APPLICATION_CREDENTIALS needs"):
        _gcs._client()
