"""The page about lifecycles shows the tables as they are."""

from scripts import lifecycle_drawings as drawings


def test_drawings_match_the_transition_tables() -> None:
    page = drawings.PAGE.read_text("utf-8")
    assert all(f"<!-- {name} -->\n" in page for name in drawings.DRAWINGS)
    assert drawings.drawn(page) == page, "run: python -m scripts.lifecycle_drawings --write"
