"""The records of all routes, and the modules that hold the routes below one first name of a path.

A Lambda function imports a module when a request needs it: a process that answers few requests should not import
everything. `route_index.py` lists the modules; scripts/route_pages.py generates it from the records."""

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from det_controlplane.api import openapi, openapi3
from det_controlplane.api.route_index import MODULES_AT
from det_controlplane.api.router import Route


def place_of(path: str) -> str:
    """Return the first name below /api/v1, or the first name of any other path with a slash before it."""
    names = path.strip("/").split("/", 3)
    below = names[:2] == ["api", "v1"] and len(names) > 2
    return names[2] if below else f"/{names[0]}"


def modules_at(place: str) -> tuple[str, ...]:
    return MODULES_AT.get(place, ())


def of_module(name: str) -> tuple[Route, ...]:
    records: tuple[Route, ...] = import_module(f"det_controlplane.api.{name}").ROUTES
    return records


def module_names() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in MODULES_AT.values() for name in names))


def served() -> tuple[Route, ...]:
    return tuple(route for name in module_names() for route in of_module(name))


def index() -> dict[str, tuple[str, ...]]:
    """Return MODULES_AT as the records of all modules in this folder have it."""
    folder = str(Path(__file__).parent)
    names = sorted(module.name for module in pkgutil.iter_modules([folder]))
    modules = {n: import_module(f"det_controlplane.api.{n}") for n in names}
    pairs = {
        (place_of(route.path), name)
        for name, module in modules.items()
        for route in getattr(module, "ROUTES", ())
    }
    places = sorted({place for place, _ in pairs})
    return {p: tuple(sorted(name for place, name in pairs if place == p)) for p in places}


@cache
def every() -> tuple[Route, ...]:
    return (*served(), *DESCRIPTIONS)


DESCRIPTIONS = (openapi.route_describing(every), openapi3.route_describing(every))
