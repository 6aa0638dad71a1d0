"""Which commands of Determined's command line the tests run, as their sources tell."""

import ast
from collections.abc import Iterator
from pathlib import Path

E2E = Path(__file__).parents[1]
# Those that people use day to day, under one of their names each.
DAILY = """
agent disable, agent enable, agent list, cmd kill, cmd list, cmd logs, cmd run, checkpoint describe,
checkpoint download, checkpoint rm, e activate, e archive, e cancel, e config, e continue, e create, e delete,
e describe, e download, e kill, e label add, e list, e list-checkpoints, e list-trials, e logs, e move, e
pause, e set gc-policy, e set max-slots, e set priority, e wait, job list, job update, master config, master
info, master logs, model create, model describe, model list, model list-versions, model register-version,
preview-search, project create, project list, resources raw, slot list, task list, task logs, template create,
template describe, template list, template set, t describe, t download, t kill, t logs, user change-password,
user create, user list, user login, user logout, user whoami, version, workspace create, workspace list,
notebook kill, notebook list, notebook logs, notebook open, notebook start, shell kill, shell list, shell
open, shell start, tensorboard kill, tensorboard list, tensorboard open, tensorboard start
"""
# Those of tasks that are tried elsewhere, or not yet.
OF_TASKS = """
notebook kill, notebook list, notebook logs, notebook open, notebook start, shell kill, shell list, shell open,
shell start, tensorboard kill, tensorboard list, tensorboard open, tensorboard start
"""


def commands(text: str) -> set[str]:
    return {" ".join(command.split()) for command in text.split(",")}


def run_in(path: Path) -> Iterator[str]:
    """Yield the words with which calls of the client in a file begin; options of all commands come before them."""
    for node in ast.walk(ast.parse(path.read_text())):
        called = (
            node.func.attr
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            else ""
        )
        if isinstance(node, ast.Call) and (called in ("det", "refused", "run") or _is_csv(node)):
            words = [
                a.value
                for a in node.args
                if isinstance(a, ast.Constant) and isinstance(a.value, str)
            ]
            yield " ".join(words[2:] if words[:1] == ["-u"] else words)


def _is_csv(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "csv_of"


def test_every_daily_command_is_run_by_some_test() -> None:
    run = [line for path in E2E.rglob("test_stock_*.py") for line in run_in(path)]
    missing = {
        c for c in commands(DAILY) if not any(f"{line} ".startswith(f"{c} ") for line in run)
    }
    assert sorted(missing - commands(OF_TASKS)) == []
