"""Uploads that nothing was made of are collected; a cluster that cannot write says so."""

import hashlib
from datetime import timedelta

from sqlalchemy import text

from tests.support.api import Api, Caller, create, create_ended

CONTENT = b"an archive"
_FULL = (
    """CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$""",
    """CREATE TRIGGER full_disk BEFORE UPDATE ON cluster FOR EACH STATEMENT
    EXECUTE FUNCTION full_disk()""",
)


def announced(user: Caller) -> str:
    digest = hashlib.sha256(CONTENT).hexdigest()
    body = {"size": len(CONTENT), "sha256": digest}
    return str(user.post("/api/v1/contexts", body)["contextId"])


def contexts(api: Api) -> set[str]:
    with api.ctx.db.begin() as tx:
        return set(tx.execute(text("SELECT id::text FROM contexts")).scalars())


def clean_up(api: Api, days: float) -> None:
    later = api.ctx.now() + timedelta(days=days)
    api.ctx.now = lambda: later
    create_ended(api.signed_in("determined"))
    for _ in range(2):
        api.tick()


def test_uploads_that_were_cut_off_are_collected(api: Api, user: Caller) -> None:

    create(user)
    kept = contexts(api)
    cut_off, whole = announced(user), announced(user)
    api.ctx.objects.put(f"contexts/{whole}.tar.gz", CONTENT)
    clean_up(api, 0.5)
    assert {cut_off, whole} <= contexts(api), "they may still be on their way"
    clean_up(api, 2)
    assert contexts(api) & {cut_off, whole} == set()
    assert kept <= contexts(api)
    assert api.ctx.objects.get(f"contexts/{whole}.tar.gz") is None


def test_a_cluster_whose_disk_is_full_is_not_healthy(api: Api) -> None:
    assert api.anonymous().ask("GET", "/health").status == 200
    with api.ctx.db.begin() as tx:
        for statement in _FULL:
            tx.execute(text(statement))
    later = api.ctx.now() + timedelta(minutes=1)
    api.ctx.now = lambda: later
    told = api.anonymous().ask("GET", "/health")
    assert (told.status, told.json()["database"]) == (503, "down")
