"""Comments only cite pages that exist in this repository."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_links import anchors_of

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "agent_ami", "bench", "cli", "controlplane", "docs", "examples", "harness", "provisioners", "scripts", "tests",
    ".ci", ".github",
)  # fmt: skip
KINDS = {
    ".py",
    ".md",
    ".sql",
    ".yaml",
    ".yml",
    ".toml",
    ".html",
    ".js",
    ".css",
    ".sh",
    ".service",
    "",
}
# Sections by number belong to documents that readers of this repository do not have.
SECTION = re.compile("\N{SECTION SIGN}")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")


def sources() -> Iterator[Path]:
    yield from (p for p in sorted(ROOT.iterdir()) if p.is_file() and p.suffix in KINDS)
    for folder in FOLDERS:
        files = sorted((ROOT / folder).rglob("*"))
        yield from (p for p in files if p.is_file() and p.suffix in KINDS)


def read(path: Path) -> str:
    return path.read_text("utf-8", errors="replace")


def test_no_file_cites_a_numbered_section() -> None:
    citing = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources()
        for number, line in enumerate(read(path).splitlines(), 1)
        if SECTION.search(line)
    ]
    assert citing == [], "state the fact in a few words, or cite a page of docs/"


def missing(citation: str) -> bool:
    path, _, anchor = citation.partition("#")
    page = ROOT / path
    return not page.is_file() or (bool(anchor) and anchor not in anchors_of(page))


def test_every_page_that_code_cites_exists() -> None:
    code = [p for p in sources() if p.suffix != ".md" and p != Path(__file__)]
    missing_pages = [
        f"{path.relative_to(ROOT)}: {citation}"
        for path in code
        for citation in PAGE.findall(read(path))
        if missing(citation)
    ]
    assert missing_pages == []


@pytest.mark.parametrize(
    ("citation", "lost"),
    [
        ("docs/concepts/scheduling.md#fair-share", False),
        ("docs/concepts/scheduling.md#no-such-heading", True),
        ("docs/concepts/no_such_page.md", True),
    ],
)
def test_citation_needs_an_existing_page_and_heading(citation: str, lost: bool) -> None:
    assert missing(citation) is lost
