"""Find the ids by which a request names objects, in its path, its query, or anywhere in its body."""

from typing import Any

from det_controlplane.api.http import Request
from det_controlplane.core.people.permissions import Need


def named_in(request: Request, need: Need) -> list[object]:
    """Return the objects that a request names, as it wrote them."""
    (first, *_) = need.names
    if need.place == "path":
        return [request.params[first]]
    if need.place == "query":
        return list(request.texts(first, snake(first)))
    values: list[Any] = [request.json()]
    for name in need.names:
        inner = [_field(value, name) for value in values if isinstance(value, dict)]
        values = [
            item for value in inner for item in (value if isinstance(value, list) else [value])
        ]
    return [
        value for value in values if isinstance(value, str | int | float) and value not in ("", 0)
    ]


def _field(values: dict[str, Any], name: str) -> Any:
    value = values.get(name)
    return values.get(snake(name)) if value is None else value


def snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
