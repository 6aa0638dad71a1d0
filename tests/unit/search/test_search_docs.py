"""The drawings of the search page match the code."""

from scripts import search_tables as tables


def test_page_matches_the_decisions_of_the_code() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.drawn(page) == page, "run: python -m scripts.search_tables --write"


def test_every_drawing_is_on_the_page() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- drawn: {name} -->" in page for name in tables.DRAWINGS)
