"""HTTP as AWS Lambda sees it: API Gateway REST (1.0), HTTP API (2.0) and Function URL events."""

import base64
import hmac
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

from det_controlplane.api.app import App, unavailable
from det_controlplane.api.errors import TooLarge
from det_controlplane.api.http import Request, Response, Stream, Wait
from det_controlplane.entry.server.answers import WireAnswer, next_batch, wire_answer
from det_controlplane.entry.server.request_spans import note_request, trace_id_of

Event = Mapping[str, Any]

_FUNCTION_URL = ".lambda-url."  # in the domain of a request that came by the function's own URL
MAX_ANSWER = 6 * 1024 * 1024  # of the JSON that Lambda hands on, base64 included
MAX_DOCUMENT = 8 * MAX_ANSWER  # before it is compressed
_ENVELOPE = 4096
_GATEWAY_S = 25.0  # API Gateway gives up after 29
_RESERVE_S = 2.0
_STREAM_PAUSE_S = 1.0


def is_http(event: Event) -> bool:
    return "httpMethod" in event or "http" in event.get("requestContext", {})


def respond(
    app: App,
    event: Event,
    remaining_s: float = _GATEWAY_S,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Answer one event. Nothing can be held open here: polls are final, streams are drained."""
    request, begin_s = read_request(event), time.time()
    request.trace_id = trace_id_of(request.headers)
    answer = app.handle(request)
    if isinstance(answer, Wait):
        raise RuntimeError(f"{request.path} waits although it was told not to")
    if isinstance(answer, Stream):
        budget_s = min(remaining_s, _GATEWAY_S) - _RESERVE_S
        answer = _drain_stream(app, request, answer, budget_s, sleep)
    if app.ctx.spans is not None:
        note_request(app.ctx.spans, request, answer.status, begin_s, time.time())
    return write_answer(event, request, wire_answer(request, answer))


def refuse(event: Event, cause: Exception, identity: Response | None = None) -> dict[str, Any]:
    """Answer one event when the application could not be built, as its database does not answer.

    Requests for the cluster's identity are answered without a database, where the deployment names it."""
    request = read_request(event)
    asks_identity = (request.method, request.path.rstrip("/")) == ("GET", "/info")
    answer = identity if identity and asks_identity else unavailable(cause)
    return write_answer(event, request, wire_answer(request, answer))


def read_request(event: Event) -> Request:
    request = _read_v2(event) if "http" in event["requestContext"] else _read_v1(event)
    body = event.get("body") or ""
    request.body = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()
    return request


def write_answer(event: Event, request: Request, answer: WireAnswer) -> dict[str, Any]:
    result = _written(event, answer)
    size = len(result["body"])
    if size < MAX_ANSWER // 8 or len(json.dumps(result)) + _ENVELOPE <= MAX_ANSWER:
        return result
    remedy = "ask for fewer items (limit, offset), or accept gzip"
    if request.path.rstrip("/").endswith(("/context_directory", "/model_def")):
        remedy = "ask for the address of the code (url=true), as `det` of this cluster does"
    error = TooLarge(
        f"the answer to {request.path} has {size / 1024**2:.1f} MiB and this host carries 6: {remedy}"
    )
    response = Response(error.to_json(), error.status)
    return _written(event, wire_answer(request, response))


def _written(event: Event, answer: WireAnswer) -> dict[str, Any]:
    body, is_base64 = _text(answer)
    result = {"statusCode": answer.status, "body": body, "isBase64Encoded": is_base64}
    # The gateways count the bytes themselves, after undoing base64.
    headers = {k: v for k, v in answer.headers.items() if k != "content-length"}
    cookie = headers.pop("set-cookie", None)
    if "http" in event["requestContext"]:
        return {**result, "headers": headers, "cookies": [cookie] if cookie else []}
    many = {name: [value] for name, value in headers.items()}
    return {**result, "multiValueHeaders": {**many, "set-cookie": [cookie]} if cookie else many}


def _text(answer: WireAnswer) -> tuple[str, bool]:
    if "content-encoding" not in answer.headers:
        try:
            return answer.body.decode("utf-8"), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(answer.body).decode("ascii"), True


def _read_v1(event: Event) -> Request:
    many = event.get("multiValueHeaders") or {
        name: [value] for name, value in (event.get("headers") or {}).items()
    }
    query = event.get("multiValueQueryStringParameters") or {
        name: [value] for name, value in (event.get("queryStringParameters") or {}).items()
    }
    return Request(
        method=event["httpMethod"],
        path=event["path"],
        query={name: list(values) for name, values in query.items()},
        headers={name.lower(): _join_values(name, values) for name, values in many.items()},
        client=event["requestContext"].get("identity", {}).get("sourceIp", ""),
    )


def _client_and_host(context: Mapping[str, Any], headers: dict[str, str]) -> tuple[str, str]:
    """Return the client's address and the host of a request.

    The CloudFront distribution sends both and proves its identity by a secret header. Without a distribution, the event
    has them. Terraform cannot set the function's address, because it is created after the function."""
    viewer, proof = headers.pop("x-det-viewer", ""), headers.pop("x-det-front", "")
    secret = os.environ.get("DET_FRONT_SECRET", "")
    source, host = context["http"].get("sourceIp", ""), context.get("domainName", "")
    if not secret or not hmac.compare_digest(proof.encode(), secret.encode()):
        return source, host
    return viewer or source, headers.get("x-forwarded-host") or host


def _read_v2(event: Event) -> Request:
    context = event["requestContext"]
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    if event.get("cookies"):
        headers["cookie"] = "; ".join(event["cookies"])
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(event.get("rawQueryString", ""), keep_blank_values=True):
        query.setdefault(name, []).append(value)
    client, host = _client_and_host(context, headers)
    return Request(
        method=context["http"]["method"],
        path=_without_stage(_encoded_path(event), context.get("stage", "$default")),
        query=query,
        headers=headers,
        client=client,
        public_url=f"https://{host}" if host else "",
    )


def _encoded_path(event: Event) -> str:
    """Return the path as clients sent it. API Gateway decodes it, function URLs do not."""
    path = str(event["rawPath"])
    if _FUNCTION_URL in event["requestContext"].get("domainName", ""):
        return path
    return quote(path, safe="/:@!$&'()*+,;=~")


def _join_values(name: str, values: list[str]) -> str:
    return ("; " if name.lower() == "cookie" else ", ").join(values)


def _without_stage(path: str, stage: str) -> str:
    prefix = f"/{stage}"
    has_stage = stage != "$default" and (path == prefix or path.startswith(prefix + "/"))
    return path[len(prefix) :] or "/" if has_stage else path


def _drain_stream(
    app: App, request: Request, stream: Stream, budget_s: float, sleep: Callable[[float], None]
) -> Response:
    """Return the lines of a stream until it ends, the time is up or the answer is full."""
    parts: list[bytes] = []
    size, cursor, slept = 0, stream.cursor, 0.0
    start = time.monotonic()
    is_done = False
    is_document = stream.is_file and stream.media_type == "application/json"
    most = MAX_DOCUMENT if is_document else MAX_ANSWER // 2
    while size < most and not is_done:
        batch = next_batch(app, request, stream, cursor)
        cursor = batch.cursor
        parts.extend(batch.lines)
        size += sum(map(len, batch.lines))
        is_done = batch.done
        if is_done or max(slept, time.monotonic() - start) + _STREAM_PAUSE_S > budget_s:
            break
        if not (batch.lines or batch.unfinished):
            sleep(_STREAM_PAUSE_S)
            slept += _STREAM_PAUSE_S
    if stream.is_file and not is_done:
        remedy = (
            "ask for fewer items (limit, offset)"
            if is_document
            else "read it from its storage (--mode direct)"
        )
        error = TooLarge(f"{request.path} is larger than this host carries: {remedy}")
        return Response(error.to_json(), error.status)
    return Response(b"".join(parts), media_type=stream.media_type)
