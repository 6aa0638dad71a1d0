"""docs/concepts/scheduling.md shows the present behaviour of the scheduler."""

from det_controlplane.core.schedule import WaitCode

from scripts import scheduling_drawings as drawings


def test_the_drawings_are_up_to_date() -> None:
    page = drawings.PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- drawn: ") == len(drawings.DRAWINGS)
    assert drawings.drawn(page) == page, "run: python -m scripts.scheduling_drawings --write"


def test_every_reason_is_documented() -> None:
    page = drawings.PAGE.read_text(encoding="utf-8")
    assert all(f"| `{code.value}` |" in page for code in WaitCode)
