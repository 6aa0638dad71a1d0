"""Names and ids that do not exist, typed at the real API: exit code 3, and the command that lists what there is."""

import pytest

from tests.cli.conftest import Det
from tests.support.api import Api

NOWHERE = "11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("job update nope -p 3", "`det job list` shows the live ones"),
        ("why nope", "task 'nope' not found"),
        ("why job nope", "job 'nope' not found: ids of jobs are UUIDs, `det job list` shows them"),
        ("model list -w nope", "there is no workspace 'nope'"),
        (
            "workspace create x --default-compute-pool nope",
            "pool 'nope' not found; this cluster has",
        ),
        ("resource-pool bindings list-workspaces nope", "pool 'nope' not found; this cluster has"),
        *(
            (f"{kind} logs nope", f"hint: `det {kind} list --all` shows what there is")
            for kind in ("command", "notebook", "shell", "tensorboard")
        ),
        *(
            (
                words,
                "hint: `det task list` shows those that run, `det command list --all`, and the same of",
            )
            for words in ("task describe nope", "task logs nope", "why task nope")
        ),
        ("notebook describe nope", "hint: `det notebook list --all` shows"),
        ("instance describe nope", "hint: `det instance list --all` shows"),
        (f"checkpoint describe {NOWHERE}", "hint: `det experiment list-checkpoints"),
    ],
)
def test_what_does_not_exist_ends_with_3(api: Api, det: Det, words: str, said: str) -> None:
    ran = det(*words.split())
    assert (ran.code, ran.out) == (3, "")
    assert said in ran.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("agent token revoke 99", ""),  # its message names `det agent token list`
        ("user end-session 99", ""),
        ("resource-pool bindings remove reserved nope", "`det workspace list` shows what there is"),
    ],
)
def test_the_hint_lists_what_is_missing(
    api: Api, det: Det, monkeypatch: pytest.MonkeyPatch, words: str, hint: str
) -> None:
    monkeypatch.setenv("DET_USER", "admin")
    ran = det(*words.split())
    assert (ran.code, ran.err.partition("hint: ")[2].strip()) == (3, hint)


@pytest.mark.parametrize("kind", ["job", "experiment", "experiments", "trial", "t", "task"])
def test_a_kind_without_an_id_is_no_id(api: Api, det: Det, kind: str) -> None:
    ran = det("why", kind)
    assert (ran.code, "is missing" in ran.err) == (2, True)
    assert "hint: write `det why [experiment|trial|job|task] ID`" in ran.err
