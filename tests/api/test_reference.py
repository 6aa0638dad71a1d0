"""docs/reference/api.md and permissions.md are the route table."""

from det_controlplane.api import permission_reference, reference, routes

from tests.support.cluster import ROOT


def test_the_reference_lists_the_routes_that_are_served() -> None:
    page = (ROOT / "docs/reference/api.md").read_text("utf-8")
    assert page == reference.page(routes.every()), (
        "run: python -m det_controlplane.api.reference > docs/reference/api.md"
    )


def test_the_page_of_permissions_is_the_table() -> None:
    page = (ROOT / "docs/reference/permissions.md").read_text("utf-8")
    assert page == permission_reference.page(), (
        "run: python -m det_controlplane.api.permission_reference > docs/reference/permissions.md"
    )


def test_every_route_says_what_it_does() -> None:
    silent = [f"{r.method} {r.path}" for r in routes.every() if not r.summary]
    assert silent == []
