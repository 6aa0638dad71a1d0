"""The tables of messages in the guides quote messages that the programs print."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.test_links import DOCS, ROOT

GUIDES = (
    "guides/first-account.md",
    "guides/aws.md",
    "guides/gcp.md",
    "guides/upgrade.md",
    "guides/backup.md",
    "guides/sign-in.md",
    "guides/ci.md",
)
FOLDERS = ("cli", "controlplane", "provisioners")
# Messages of AWS, Google Cloud and pg_dump.
FOREIGN = (
    "Your account must be verified before you can add new CloudFront resources",
    "Project '…' not found or permission denied",
    "… failed: … server version mismatch",
)
VALUE = "…"
_TABLE = re.compile(r"^\| message .*\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
_LEAST_WORDS = 12  # characters of a message beside its values; shorter ones would match anything


def quoted(page: str) -> Iterator[str]:
    """Yield the first cell of each row of the tables of messages."""
    for rows in _TABLE.findall((DOCS / page).read_text("utf-8")):
        for row in rows.splitlines():
            yield _plain(row.strip("| ").split(" | ")[0])


@cache
def messages() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the texts in the programs, with `…` for each value, and their patterns."""
    sources = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    trees = (ast.parse(path.read_text("utf-8")) for path in sources)
    texts = {_plain(text) for tree in trees for text in _texts(tree)}
    long_texts = (text for text in texts if len(text.replace(VALUE, "")) >= _LEAST_WORDS)
    return tuple((text, re.compile(_pattern(text))) for text in long_texts)


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts below a node, without docstrings."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (
                part.value if isinstance(part, ast.Constant) else VALUE for part in node.values
            )
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield from _texts(node)


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def _pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in text.split(VALUE))


def is_printed(message: str) -> bool:
    """Return whether a program prints the message. Quotes may leave out its ends."""
    part_of_text = re.compile(_pattern(message.strip(f"{VALUE}:, ")))
    return any(
        part_of_text.search(text) or pattern.fullmatch(message) for text, pattern in messages()
    )


@pytest.mark.parametrize("page", GUIDES)
def test_every_quoted_message_is_printed(page: str) -> None:
    rows = [message for message in quoted(page) if message not in FOREIGN]
    assert len(rows) > 3
    assert [message for message in rows if not is_printed(message)] == []


def test_a_reworded_message_is_detected() -> None:
    assert is_printed("the job ran on …, which is not a spot machine")
    assert not is_printed("the job ran on …, which is no spot machine")
