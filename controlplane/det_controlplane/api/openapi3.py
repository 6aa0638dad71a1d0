"""The API's description as OpenAPI 3, which generators of clients read. It is made from the Swagger 2.0 description.

Determined serves Swagger 2.0, and its tools expect it. Both descriptions come from one route table."""

from collections.abc import Callable, Mapping
from typing import Any

from det_controlplane.api.http import Answer, Request, json_response
from det_controlplane.api.openapi import description
from det_controlplane.api.router import Access, Route, get
from det_controlplane.services.context import Context

VERSION = "3.0.3"
_BEARER = {"BearerToken": {"type": "http", "scheme": "bearer"}}
_OF_PARAMETERS = ("name", "in", "required", "description")


def openapi3(swagger: Mapping[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI 3 document with the same routes and shapes as a Swagger 2.0 document."""
    return {
        "openapi": VERSION,
        "info": swagger["info"],
        "paths": {
            path: {method: _operation(operation) for method, operation in operations.items()}
            for path, operations in swagger["paths"].items()
        },
        "components": {
            "schemas": {name: _schema(shape) for name, shape in swagger["definitions"].items()},
            "securitySchemes": _BEARER,
        },
    }


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    parameters = operation["parameters"]
    converted = {
        **{key: operation[key] for key in ("operationId", "summary", "tags", "security")},
        "parameters": [_parameter(p) for p in parameters if p["in"] != "body"],
        "responses": {
            status: _response(answer, operation["produces"])
            for status, answer in operation["responses"].items()
        },
    }
    body = next((p["schema"] for p in parameters if p["in"] == "body"), None)
    if body is not None:
        content = {"application/json": {"schema": _schema(body)}}
        converted["requestBody"] = {"content": content, "required": bool(body.get("required"))}
    return converted


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: parameter[key] for key in _OF_PARAMETERS if key in parameter}
    format = parameter.get("collectionFormat")
    schema = {
        key: value
        for key, value in parameter.items()
        if key not in (*_OF_PARAMETERS, "collectionFormat")
    }
    lists = {"style": "form", "explode": format == "multi"} if format else {}
    return {**kept, **lists, "schema": _schema(schema)}


def _response(answer: Mapping[str, Any], produces: list[str]) -> dict[str, Any]:
    if "schema" not in answer:
        return {"description": answer["description"]}
    kinds = produces if produces == ["application/json"] else ["application/json"]
    content = {kind: {"schema": _schema(answer["schema"])} for kind in kinds}
    return {"description": answer["description"], "content": content}


def _schema(schema: Any) -> Any:
    """Return a schema in the form of OpenAPI 3, with all schemas in it."""
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref":
            converted[key] = value.replace("#/definitions/", "#/components/schemas/")
        elif key == "x-nullable":
            converted["nullable"] = value
        else:
            converted[key] = _schema(value)
    return converted


def route_describing(routes: Callable[[], tuple[Route, ...]]) -> Route:
    """Return the route of the OpenAPI 3 description. `routes` returns all routes, including this one."""

    def document(ctx: Context, request: Request) -> Answer:
        return json_response(openapi3(description(routes())))

    path = "/api/v1/openapi.json"
    return get(path, document, access=Access.PUBLIC, summary="This description as OpenAPI 3")
