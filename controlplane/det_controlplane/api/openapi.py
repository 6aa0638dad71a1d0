"""The API's own description, made from the route table."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from det_controlplane.api.answers import schemas_of
from det_controlplane.api.http import Answer, Request, json_response
from det_controlplane.api.inputs import body_schema, query_schemas
from det_controlplane.api.router import Access, Route, get
from det_controlplane.core.interface import INTERFACE_VERSION
from det_controlplane.services.context import Context

_PARAMETER = re.compile(r"\{(\w+)(?:\.\.\.)?\}")
# Path parameters that are numbers: their handlers read them with `request.id`.
_NUMBERS = (
    *(
        "budgetId",
        "experimentId",
        "groupId",
        "id",
        "modelVersionNum",
        "projectId",
        "runId",
        "sessionId",
    ),
    *("slotId", "tokenId", "trialId", "userId", "workspaceId"),
)
_ERROR = {"description": "Refused; error.error says why", "schema": {"$ref": "#/definitions/Error"}}
_DEFINITIONS = {
    "Error": {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "code": {"type": "integer", "description": "gRPC status code"},
                    "reason": {"type": "string"},
                    "error": {"type": "string"},
                },
            }
        },
    }
}


def description(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the description as Swagger 2.0, which is what Determined serves at this address."""
    paths: dict[str, dict[str, Any]] = {}
    definitions: dict[str, Any] = {**_DEFINITIONS}
    for route in routes:
        if route.response is not None:
            definitions |= schemas_of(route.response)
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "swagger": "2.0",
        "info": {"title": "Determined Serverless API", "version": INTERFACE_VERSION},
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "securityDefinitions": {
            "BearerToken": {"type": "apiKey", "name": "Authorization", "in": "header"}
        },
        "paths": dict(sorted(paths.items())),
        "definitions": definitions,
    }


def _operation(route: Route) -> dict[str, Any]:
    names = _PARAMETER.findall(route.path)
    query = {} if route.query is None else query_schemas(route.query)
    kinds = {n: "integer" if n in _NUMBERS else "string" for n in names}
    parameters: list[dict[str, Any]] = [
        {"name": n, "in": "path", "required": True, "type": kinds[n]} for n in names
    ]
    parameters += [{"name": n, "in": "query", **kind} for n, kind in sorted(query.items())]
    if route.body is not None and route.method != "GET":
        parameters.append({"name": "body", "in": "body", "schema": body_schema(route.body)})
    produced = dict.fromkeys((*route.produces, "application/json"))
    return {
        "operationId": _name(route),
        "summary": route.summary,
        "tags": [_tag(route.path)],
        "parameters": parameters,
        "produces": list(produced),
        "security": [] if route.access is Access.PUBLIC else [{"BearerToken": []}],
        "responses": {"200": _success_response(route), "default": _ERROR},
    }


def _success_response(route: Route) -> dict[str, Any]:
    done: dict[str, Any] = {"description": "Done"}
    if route.response is not None:
        done["schema"] = {"$ref": f"#/definitions/{route.response.__name__}"}
    return done


def _name(route: Route) -> str:
    """Return the name that `det dev bindings` has for a route; no other has it."""
    inside = route.path.removeprefix("/api/v1")
    # A path outside /api/v1 may equal a path below it.
    words = re.sub(r"\W+", "_", inside if inside != route.path else f"root{route.path}").strip("_")
    return f"{route.method.lower()}_{words}"


def _tag(path: str) -> str:
    return path.removeprefix("/api/v1").strip("/").partition("/")[0] or "root"


def route_describing(routes: Callable[[], tuple[Route, ...]]) -> Route:
    """Return the route of the description. `routes` returns all routes, including this one."""

    def swagger(ctx: Context, request: Request) -> Answer:
        return json_response(description(routes()))

    path = "/api/v1/api.swagger.json"
    return get(path, swagger, access=Access.PUBLIC, summary="This description")
