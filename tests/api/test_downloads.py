"""Checkpoints as archives: their files, and files that must never be included."""

import io
import socket
import tarfile
import zipfile
from pathlib import Path

import pytest
from det_controlplane.ports.files import StorageUnreachable

from tests.support.api import Api, Caller, create_ended, report_checkpoint

LARGE = bytes(range(256)) * 12_000


@pytest.fixture
def stored(api: Api, user: Caller) -> str:
    """A checkpoint with files in the storage."""
    uuid = report_checkpoint(user, create_ended(user))
    folder = api.checkpoints / uuid
    (folder / "code").mkdir(parents=True)
    (folder / "model.bin").write_bytes(LARGE)
    (folder / "code/train.py").write_bytes(b"print(1)")
    return uuid


def test_tar_has_the_announced_length(user: Caller, stored: str) -> None:
    response = user.ask("GET", f"/checkpoints/{stored}")
    assert response.media_type == "application/x-tar"
    assert int(response.headers["content-length"]) == len(response.body)
    with tarfile.open(fileobj=io.BytesIO(response.body)) as tar:
        assert tar.getnames() == ["code/train.py", "model.bin"]
        model = tar.extractfile("model.bin")
        assert model is not None
        assert model.read() == LARGE


def test_gzip_and_zip_contain_the_same_files(user: Caller, stored: str) -> None:
    path = f"/checkpoints/{stored}"
    zipped = user.ask("GET", path, headers={"accept": "application/zip"})
    with zipfile.ZipFile(io.BytesIO(zipped.body)) as archive:
        assert archive.testzip() is None
        assert archive.read("model.bin") == LARGE
    response = user.ask("GET", path, headers={"accept": "application/gzip"})
    with tarfile.open(fileobj=io.BytesIO(response.body), mode="r:gz") as tar:
        code = tar.extractfile("code/train.py")
        assert code is not None
        assert code.read() == b"print(1)"


def test_rejects_other_archive_formats(user: Caller, stored: str) -> None:
    response = user.ask("GET", f"/checkpoints/{stored}", headers={"accept": "image/png"})
    assert response.status == 415
    assert "application/gzip" in response.error


def test_links_out_of_the_checkpoint_are_not_followed(
    api: Api, user: Caller, stored: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("hush")
    (api.checkpoints / stored / "link").symlink_to(tmp_path / "secret")
    (api.checkpoints / stored / "folder").symlink_to(tmp_path)
    response = user.ask("GET", f"/checkpoints/{stored}")
    assert b"hush" not in response.body
    with tarfile.open(fileobj=io.BytesIO(response.body)) as tar:
        assert tar.getnames() == ["code/train.py", "model.bin"]


def test_checkpoint_that_is_a_link_is_not_found(api: Api, user: Caller, tmp_path: Path) -> None:
    """Containers write to the storage, and the API reads it with its own rights."""
    uuid = report_checkpoint(user, create_ended(user))
    (tmp_path / "of the machine").mkdir()
    (tmp_path / "of the machine/secret").write_text("hush")
    api.checkpoints.mkdir(exist_ok=True)
    (api.checkpoints / uuid).symlink_to(tmp_path / "of the machine")
    response = user.ask("GET", f"/checkpoints/{uuid}")
    assert (response.status, b"hush" in response.body) == (404, False)


def test_a_link_within_a_checkpoint_is_followed(api: Api, user: Caller, stored: str) -> None:
    (api.checkpoints / stored / "latest.bin").symlink_to("model.bin")
    response = user.ask("GET", f"/checkpoints/{stored}")
    with tarfile.open(fileobj=io.BytesIO(response.body)) as tar:
        latest = tar.extractfile("latest.bin")
        assert latest is not None
        assert latest.read() == LARGE


@pytest.mark.parametrize("exchanged", ["model.bin", "code"])
def test_rejects_file_replaced_by_a_link_during_the_read(
    api: Api, stored: str, tmp_path: Path, exchanged: str
) -> None:
    """The link comes after the look for links, and before the file is opened."""
    (tmp_path / "train.py").write_text("hush")
    place = api.checkpoints / stored / exchanged
    real = Path.resolve

    def resolve(path: Path, strict: bool = False) -> Path:
        resolved_path = real(path, strict)
        if path.name in ("model.bin", "train.py") and not place.is_symlink():
            place.rename(tmp_path / "moved")
            place.symlink_to(tmp_path / ("train.py" if exchanged == "model.bin" else ""))
        return resolved_path

    storage = {"type": "directory", "container_path": str(api.checkpoints)}
    path = "model.bin" if exchanged == "model.bin" else "code/train.py"
    assert api.ctx.checkpoint_files is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "resolve", resolve)
        with pytest.raises(StorageUnreachable, match="is not a file of checkpoint"):
            list(api.ctx.checkpoint_files.read(storage, stored, path))


@pytest.mark.parametrize("place", ["", "loop"])
def test_circular_links_cause_no_server_error(
    api: Api, user: Caller, stored: str, place: str
) -> None:
    """In place of the storage, or within the checkpoint."""
    if not place:
        api.checkpoints.rename(api.checkpoints.parent / "moved")
        api.checkpoints.symlink_to(api.checkpoints)
    else:
        (api.checkpoints / stored / place).symlink_to(place)
    assert user.ask("GET", f"/checkpoints/{stored}").status == 404


def test_deleted_checkpoint_is_not_found(user: Caller, stored: str) -> None:
    body = {"checkpoints": [{"uuid": stored, "resources": {"resources": {}}}]}
    user.done("PATCH", "/api/v1/checkpoints", body)
    response = user.ask("GET", f"/checkpoints/{stored}")
    assert response.status == 404
    assert "was deleted" in response.error


def test_missing_files_are_reported_before_the_download(user: Caller, stored: str) -> None:
    uuid = report_checkpoint(user, create_ended(user))
    response = user.ask("GET", f"/checkpoints/{uuid}")
    assert response.status == 404
    assert uuid in response.error


def test_errors_do_not_reveal_directories_of_the_api(user: Caller, tmp_path: Path) -> None:
    """Empty, full of other files, closed to the API, a file, or not there at all."""
    places = {name: tmp_path / name for name in ("empty", "other", "closed", "file", "absent")}
    for name in ("empty", "other", "closed"):
        places[name].mkdir()
    (places["other"] / "files").write_text("of others")
    places["closed"].chmod(0)
    places["file"].write_text("a file")
    contents = set()
    for place in places.values():
        for storage in (
            {"type": "directory", "container_path": str(place)},
            {"type": "shared_fs", "host_path": str(place)},
        ):
            uuid = report_checkpoint(user, create_ended(user, checkpoint_storage=storage))
            answer = user.ask("GET", f"/checkpoints/{uuid}")
            contents.add((answer.status, answer.error.replace(uuid, "ID")))
    ((status, error),) = contents
    assert (status, "--mode direct" in error) == (404, True)


def test_error_for_unreadable_storage_has_a_remedy(user: Caller) -> None:
    storage = {"type": "azure", "container": "c", "account_url": "https://a.example"}
    uuid = report_checkpoint(user, create_ended(user, checkpoint_storage=storage))
    response = user.ask("GET", f"/checkpoints/{uuid}")
    assert response.status == 400
    assert "--mode direct" in response.error


@pytest.mark.parametrize(
    "keys", [{}, {"access_key": "a", "secret_key": "b"}], ids=["no keys", "keys"]
)
def test_api_does_not_connect_to_user_defined_endpoints(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str]
) -> None:
    """Not with its own credentials, and not with the user's: such a server may answer drop by drop, or without end."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "of the API")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        storage = {"type": "s3", "bucket": "b", "endpoint_url": endpoint, **keys}
        uuid = report_checkpoint(user, create_ended(user, checkpoint_storage=storage))
        response = user.ask("GET", f"/checkpoints/{uuid}")
        assert (response.status, "use --mode direct" in response.error) == (400, True)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_download_fails_if_a_file_shrinks_during_the_read(
    api: Api, user: Caller, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.ctx.checkpoint_files is not None
    monkeypatch.setattr(type(api.ctx.checkpoint_files), "read", lambda *_: iter([b"short"]))
    with pytest.raises(ValueError, match="changed while it was read"):
        user.ask("GET", f"/checkpoints/{stored}")
