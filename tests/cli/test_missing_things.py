"""Unknown names and ids against the real API: exit code 3, and a hint with the command that lists the existing ones."""

import pytest

from tests.cli.conftest import Det
from tests.support.api import Api

NOWHERE = "11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("job update nope -p 3", "`det job list` shows the live ones"),
        ("job list --all --owner nobody", "`det user list --all` lists the existing ones"),
        ("job list --all --owner determined --owner nobody", "user 'nobody' not found"),
        ("job list --all -p nopool", "there is no resource pool 'nopool'"),
        ("job list --all -p nopool", "`det pool list` lists them"),
        ("why nope", "task 'nope' not found"),
        ("why job nope", "job 'nope' not found: job IDs are UUIDs; `det job list` shows them"),
        ("model list -w nope", "there is no workspace 'nope'"),
        (
            "workspace create x --default-compute-pool nope",
            "pool 'nope' not found; this cluster has",
        ),
        ("resource-pool bindings list-workspaces nope", "pool 'nope' not found; this cluster has"),
        *(
            (f"{kind} logs nope", f"hint: `det {kind} list --all` lists the existing ones")
            for kind in ("command", "notebook", "shell", "tensorboard")
        ),
        *(
            (
                words,
                "hint: `det task list` shows active tasks; `det job list --all` lists tasks of all types, also",
            )
            for words in (
                "task describe nope",
                "task logs nope",
                "task resources nope",
                "why task nope",
            )
        ),
        ("notebook describe nope", "hint: `det notebook list --all` lists"),
        ("instance describe nope", "hint: `det instance list --all` lists"),
        (f"checkpoint describe {NOWHERE}", "hint: `det experiment list-checkpoints"),
    ],
)
def test_unknown_objects_exit_with_3(api: Api, det: Det, words: str, message: str) -> None:
    result = det(*words.split())
    assert (result.code, result.out) == (3, "")
    assert message in result.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("agent token revoke 99", ""),  # the message names `det agent token list`
        ("user end-session 99", ""),
        (
            "resource-pool bindings remove reserved nope",
            "`det workspace list` lists the existing ones",
        ),
    ],
)
def test_hint_names_the_list_command(
    api: Api, det: Det, monkeypatch: pytest.MonkeyPatch, words: str, hint: str
) -> None:
    monkeypatch.setenv("DET_USER", "admin")
    result = det(*words.split())
    assert (result.code, result.err.partition("hint: ")[2].strip()) == (3, hint)


@pytest.mark.parametrize("kind", ["job", "experiment", "experiments", "trial", "t", "task"])
def test_why_requires_an_id_after_the_kind(api: Api, det: Det, kind: str) -> None:
    result = det("why", kind)
    assert (result.code, "is missing" in result.err) == (2, True)
    assert "hint: write `det why [experiment|trial|job|task] ID`" in result.err
