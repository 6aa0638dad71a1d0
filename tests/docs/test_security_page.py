"""Every test that the page about security names is there."""

import re

from tests.docs.test_links import DOCS, ROOT

_NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def test_every_statement_names_its_test() -> None:
    page = (DOCS / "concepts/security.md").read_text("utf-8")
    statements = re.findall(r"^- (?:.+\n)+?(?=- |\n|\Z)", page, re.MULTILINE)
    assert len(statements) > 30
    assert [s for s in statements if not _NAMED.search(s)] == []


def test_the_tests_that_the_page_names_are_there() -> None:
    named = _NAMED.findall((DOCS / "concepts/security.md").read_text("utf-8"))
    assert len(named) > 5
    assert [f"{path}::{test}" for path, test in named if f"def {test}(" not in _source(path)] == []


def _source(path: str) -> str:
    file = ROOT / "tests" / path
    return file.read_text("utf-8") if file.exists() else ""
