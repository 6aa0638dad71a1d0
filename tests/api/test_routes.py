"""Routes are found whether their modules were imported at the start or are when somebody asks."""

import subprocess
import sys

from det_controlplane.api import routes
from det_controlplane.api.router import GrowingRouter, Match, Router

_LIGHT = """
import sys
from det_controlplane.api import routes
from det_controlplane.api.router import GrowingRouter
growing = GrowingRouter((), routes.place_of, routes.modules_at, routes.of_module)
assert growing.match("GET", "/info")
print(*(name for name in sys.modules if name.startswith("det_controlplane.api.")))
"""

_READS = """
import sys
from det_controlplane.api import routes
for module in routes.modules_at("experiments"):
    assert routes.of_module(module)
print(*(name for name in sys.modules if name in ("pydantic", "yaml", "alembic", "boto3")))
"""


def growing() -> GrowingRouter:
    return GrowingRouter(routes.DESCRIPTIONS, routes.place_of, routes.modules_at, routes.of_module)


def filled(path: str) -> str:
    return "/".join("x" if name.startswith("{") else name for name in path.split("/"))


def test_lazy_router_matches_every_route() -> None:
    whole = Router(routes.every())
    for route in routes.every():
        path = filled(route.path)
        lazy_route = growing().match(route.method, path)
        assert isinstance(lazy_route, Match), (
            f"{route.method} {route.path}: run scripts/route_pages.py --write"
        )
        assert lazy_route == whole.match(route.method, path)


def test_lazy_router_lists_allowed_methods() -> None:
    whole = Router(routes.every())
    for route in routes.every():
        path = filled(route.path)
        assert growing().match("OPTIONS", path) == whole.match("OPTIONS", path)


def test_lazy_router_matches_no_other_paths() -> None:
    router = growing()
    for path in ("/nothing", "/api/v1", "/api/v1/nothing", "/api/v2/experiments", ""):
        assert router.match("GET", path) == Router(routes.every()).match("GET", path)


def test_only_modules_of_requested_routes_are_imported() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _LIGHT], capture_output=True, text=True, check=True
    )
    modules = result.stdout.split()
    assert "det_controlplane.api.cluster" in modules
    assert "det_controlplane.api.experiments" not in modules


def test_reading_experiments_does_not_import_configuration_models() -> None:
    """They take a cold function a tenth of a second of a processor, which only new experiments need."""
    result = subprocess.run(
        [sys.executable, "-c", _READS], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []
