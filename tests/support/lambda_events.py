"""The same HTTP request as each of AWS's front doors hands it to a function."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote


@dataclass(frozen=True)
class Http:
    method: str
    target: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


def rest_event(http: Http) -> dict[str, Any]:
    """Make an event of the API Gateway REST API, payload 1.0, every type taken as binary."""
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(http.query, keep_blank_values=True):
        query.setdefault(name, []).append(value)
    headers: dict[str, list[str]] = {}
    for name, value in http.headers:
        headers.setdefault(name, []).append(value)
    return {
        "resource": "/{proxy+}",
        "path": http.path,
        "httpMethod": http.method,
        "headers": {name: values[-1] for name, values in headers.items()} or None,
        "multiValueHeaders": headers or None,
        "queryStringParameters": {n: v[-1] for n, v in query.items()} or None,
        "multiValueQueryStringParameters": query or None,
        "pathParameters": {"proxy": http.path[1:]},
        "stageVariables": None,
        "requestContext": {
            "resourcePath": "/{proxy+}",
            "httpMethod": http.method,
            "path": "/api" + http.path,
            "stage": "api",
            "requestId": "r-1",
            "identity": {"sourceIp": "203.0.113.9"},
        },
        "body": base64.b64encode(http.body).decode() if http.body else None,
        "isBase64Encoded": bool(http.body),
    }


def http_api_event(http: Http, stage: str = "$default") -> dict[str, Any]:
    """Make an event of the API Gateway HTTP API, payload 2.0, in a named stage when asked.

    API Gateway decodes the path, including `rawPath`, so an encoded slash in a name becomes a separator."""
    return _payload_2(http, unquote(http.path), stage, "a1.execute-api.us-west-2.amazonaws.com")


def function_url_event(http: Http) -> dict[str, Any]:
    """Make an event of a function URL: payload 2.0 with the path as it was sent."""
    return _payload_2(http, http.path, "$default", "abc.lambda-url.us-west-2.on.aws")


def _payload_2(http: Http, path: str, stage: str, domain: str) -> dict[str, Any]:
    raw_path = path if stage == "$default" else f"/{stage}{path}"
    cookies = [c for n, v in http.headers if n.lower() == "cookie" for c in v.split("; ")]
    headers: dict[str, str] = {}
    for name, value in http.headers:
        if name.lower() != "cookie":
            low = name.lower()
            headers[low] = f"{headers[low]},{value}" if low in headers else value
    text = _utf8(http.body)
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": raw_path,
        "rawQueryString": http.query,
        **({"cookies": cookies} if cookies else {}),
        "headers": headers,
        "requestContext": {
            "apiId": "a1",
            "domainName": domain,
            "http": {
                "method": http.method,
                "path": raw_path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.9",
                "userAgent": "test",
            },
            "requestId": "r-1",
            "stage": stage,
        },
        **({"body": text or base64.b64encode(http.body).decode()} if http.body else {}),
        "isBase64Encoded": bool(http.body) and text is None,
    }


def answered(result: Mapping[str, Any]) -> tuple[int, dict[str, str], bytes]:
    """Return the client's view of a function's result after Lambda's conversion to JSON."""
    result = json.loads(json.dumps(result))
    body = result["body"]
    raw = base64.b64decode(body) if result["isBase64Encoded"] else body.encode()
    headers = dict(result.get("headers") or {})
    headers.update((n, ", ".join(v)) for n, v in (result.get("multiValueHeaders") or {}).items())
    if result.get("cookies"):
        headers["set-cookie"] = ", ".join(result["cookies"])
    return result["statusCode"], headers, raw


def _utf8(body: bytes) -> str | None:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None
