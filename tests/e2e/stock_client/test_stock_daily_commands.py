"""The commands of Determined's command line that the tests run, according to their sources."""

import ast
from collections.abc import Iterator
from pathlib import Path

E2E = Path(__file__).parents[1]
# Commands of daily use, under one of their names each.
DAILY = """
auth login, agent disable, agent enable, agent list, cmd kill, cmd list, cmd logs, cmd run, checkpoint describe,
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


def commands(text: str) -> set[str]:
    return {" ".join(command.split()) for command in text.split(",")}


def run_in(source: str) -> Iterator[str]:
    """Yield the words with which calls of the stock client begin; options of all commands come before them."""
    tree = ast.parse(source)
    stock = set(stock_clients(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (_is_command(node, stock) or _is_csv(node)):
            words = [
                a.value
                for a in node.args
                if isinstance(a, ast.Constant) and isinstance(a.value, str)
            ]
            yield " ".join(words[2:] if words[:1] == ["-u"] else words)


def stock_clients(tree: ast.AST) -> Iterator[str]:
    """Yield the names that stock clients have: as arguments of their type, and where they are made."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=ast.Name(id="StockClient")):
                yield name
            case ast.withitem(
                context_expr=ast.Call(func=ast.Name(id="stock_client")),
                optional_vars=ast.Name(id=name),
            ):
                yield name


def _is_command(node: ast.Call, stock: set[str]) -> bool:
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ("det", "refused", "run")
        and isinstance(function.value, ast.Name)
        and function.value.id in stock
    )


def _is_csv(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "csv_of"


def test_every_daily_command_is_tested() -> None:
    run = [line for path in E2E.rglob("test_stock_*.py") for line in run_in(path.read_text())]
    missing = {
        c for c in commands(DAILY) if not any(f"{line} ".startswith(f"{c} ") for line in run)
    }
    assert sorted(missing) == []


def test_commands_of_our_own_client_are_not_counted() -> None:
    source = """
def test(cluster: Cluster, stock: StockClient) -> None:
    cluster.det("e", "list")
    stock.det("-u", "admin", "cmd", "list")
    with stock_client(url, folder) as other:
        other.refused("e", "wait")
"""
    assert sorted(run_in(source)) == ["cmd list", "e wait"]
