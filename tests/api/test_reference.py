"""The pages of docs/reference and the index of modules agree with the records of the routes."""

import subprocess
import sys

from det_controlplane.api import permission_reference, reference, routes
from det_controlplane.api.route_index import MODULES_AT

from tests.support.cluster import ROOT

HINT = "run: .venv/bin/python scripts/route_pages.py --write"


def test_the_index_lists_the_modules_of_every_record() -> None:
    assert routes.index() == MODULES_AT, HINT


def test_reference_lists_all_routes() -> None:
    page = (ROOT / "docs/reference/api.md").read_text("utf-8")
    assert page == reference.page(routes.every()), HINT


def test_permissions_page_lists_the_rules() -> None:
    page = (ROOT / "docs/reference/permissions.md").read_text("utf-8")
    assert page == permission_reference.page(routes.every()), HINT


def test_generated_files_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts/route_pages.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, ""), HINT


def test_every_route_has_a_summary() -> None:
    silent = [f"{r.method} {r.path}" for r in routes.every() if not r.summary]
    assert silent == []
