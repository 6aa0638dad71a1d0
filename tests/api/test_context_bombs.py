"""An uploaded archive that unpacks to gigabytes is refused before an experiment is made of it."""

from det_controlplane.api.http import Request, Response
from sqlalchemy import text

from tests.support.api import Api, Caller, config_of, create
from tests.support.uploads import uploaded
from tests.unit.test_context_bombs import zeros


def test_a_bomb_makes_no_experiment(api: Api, user: Caller) -> None:
    context = uploaded(api, user, zeros(200))
    request = {"config": config_of(), "activate": False, "contextId": context}
    told = user.ask("POST", "/api/v1/experiments", request)
    assert told.status == 413
    assert "unpacks to more than" in told.error


def test_files_of_a_bomb_that_is_there_are_not_shown(api: Api, user: Caller) -> None:
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
