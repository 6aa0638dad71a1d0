"""An uploaded archive that unpacks to gigabytes is refused before an experiment is made of it."""

import io
import tarfile
import tracemalloc
from collections.abc import Iterable

import pytest
from det_controlplane.api.http import Request, Response
from sqlalchemy import text

from tests.support.api import Api, Caller, config_of, create
from tests.support.uploads import uploaded
from tests.unit.test_context_bombs import packed, zeros


def test_rejects_experiment_with_an_archive_bomb(api: Api, user: Caller) -> None:
    context = uploaded(api, user, zeros(200))
    request = {"config": config_of(), "activate": False, "contextId": context}
    response = user.ask("POST", "/api/v1/experiments", request)
    assert response.status == 413
    assert "unpacks to more than" in response.error


def test_files_of_a_stored_archive_bomb_are_not_shown(api: Api, user: Caller) -> None:
    experiment = create(user)
    with api.ctx.db.begin() as tx:
        tx.execute(
            text("""WITH made AS (INSERT INTO contexts (id, size, sha256, content, uploaded, created_at)
                   VALUES (gen_random_uuid(), 1, '', :content, true, now()) RETURNING id)
               UPDATE experiments SET context_id = (SELECT id FROM made) WHERE id = :id"""),
            {"content": zeros(200), "id": experiment},
        )
    for path in ("file_tree", "file?path=zeros"):
        name, _, query = path.partition("?")
        request = Request(
            "GET" if name == "file_tree" else "POST",
            f"/api/v1/experiments/{experiment}/{name}",
            headers={"authorization": f"Bearer {user.token}"},
            body=b'{"path": "zeros"}' if query else b"",
        )
        answer = api.app.handle(request)
        assert isinstance(answer, Response)
        assert answer.status == 413


def of_files(api: Api, user: Caller, files: Iterable[tarfile.TarInfo]) -> str:
    """Return the address of the tree of an experiment with these files, which are empty."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for file in files:
            tar.addfile(file)
    request = {
        "config": config_of(), "activate": False, "contextId": uploaded(api, user, buffer.getvalue()),
    }  # fmt: skip
    experiment = user.post("/api/v1/experiments", request)["experiment"]["id"]
    return f"/api/v1/experiments/{experiment}/file_tree"


def test_listing_files_in_many_folders_uses_limited_memory(api: Api, user: Caller) -> None:
    """A hundred kilobytes represented gigabytes of names, because each folder has the names of its parents."""
    deep = "/".join("x" * 19 for _ in range(199))
    tree = of_files(api, user, (tarfile.TarInfo(f"{n:03}/{deep}") for n in range(100)))
    tracemalloc.start()
    response = user.ask("GET", tree)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (response.status, "too many folders" in response.error) == (413, True)
    assert peak < 64 << 20


def test_rejects_file_tree_that_is_too_deep(api: Api, user: Caller) -> None:
    tree = of_files(api, user, [tarfile.TarInfo("a/" * 1500 + "f")])
    assert user.ask("GET", tree).status == 413


@pytest.mark.parametrize("mtime", [2**62, -(2**62), float("nan"), float("inf")])
def test_file_with_an_invalid_time_is_shown(api: Api, user: Caller, mtime: float) -> None:
    file = tarfile.TarInfo("f")
    file.pax_headers = {"mtime": str(mtime)}
    (stored_file,) = user.get(of_files(api, user, [file]))["files"]
    assert stored_file["modifiedTime"] == "1970-01-01T00:00:00Z"


def test_unreadable_archive_causes_no_server_error(api: Api, user: Caller) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 512
    content = header.tobuf() + b"no record".ljust(512, b"\0")
    context = uploaded(api, user, packed(content))
    request = {"config": config_of(), "activate": False, "contextId": context}
    experiment = user.post("/api/v1/experiments", request)["experiment"]["id"]
    response = user.ask("GET", f"/api/v1/experiments/{experiment}/file_tree")
    assert (response.status, "cannot be read" in response.error) == (400, True)


def test_rejects_too_long_path(user: Caller) -> None:
    file = {"path": "a/" * 3000 + "f", "type": 48, "content": "", "mtime": 0, "mode": 420}
    request = {"config": config_of(), "activate": False, "modelDefinition": [file]}
    response = user.ask("POST", "/api/v1/experiments", request)
    assert (response.status, "more than 4096 bytes" in response.error) == (400, True)


def test_code_replaced_after_its_upload_is_not_returned(api: Api, user: Caller) -> None:
    """The address of an upload is good for an hour, also once an experiment was made of it."""
    context = uploaded(api, user, packed(tarfile.TarInfo("a.py").tobuf()))
    request = {"config": config_of(), "activate": False, "contextId": context}
    path = f"/api/v1/experiments/{user.post('/api/v1/experiments', request)['experiment']['id']}"
    assert user.ask("GET", f"{path}/model_def").status == 200
    api.ctx.objects.put(f"contexts/{context}.tar.gz", packed(tarfile.TarInfo("b.py").tobuf()))
    for name in ("model_def", "file_tree"):
        response = user.ask("GET", f"{path}/{name}")
        assert (response.status, "not what was uploaded" in response.error) == (400, True)
