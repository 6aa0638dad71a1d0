"""Every relative link of the documentation leads somewhere, and every page can be found."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def links_of(page: Path) -> Iterator[str]:
    # Links keep their text if it is code; only text in the brackets is removed.
    for target in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
        if not target.startswith(("http://", "https://", "mailto:")):
            yield target


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub makes from headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {word.replace(" ", "-") for word in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    problems = []
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            problems.append(link)
    assert problems == []


def test_index_links_every_page() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links_of(index)}
    pages = {page for page in DOCS.rglob("*.md") if page != index and page.parent.name != "adr"}
    assert sorted(str(page.relative_to(DOCS)) for page in pages - linked) == []
