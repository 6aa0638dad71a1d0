"""Events of AWS's three front ends become requests, and answers get the form that each expects."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from det_controlplane.api.http import Answer, Batch, Request, Response, Stream, json_response
from det_controlplane.entry.aws.events import MAX_ANSWER, is_http, respond
from det_controlplane.services.context import Context

from tests.support.apps import small_app
from tests.support.lambda_events import (
    Http,
    answered,
    function_url_event,
    http_api_event,
    rest_event,
)

Door = Callable[[Http], dict[str, Any]]


def staged(http: Http) -> dict[str, Any]:
    return http_api_event(http, stage="prod")


DOORS = [rest_event, http_api_event, staged, function_url_event]
doors = pytest.mark.parametrize("door", DOORS)


@doors
def test_handler_receives_all_parts_of_an_event(door: Door) -> None:
    requests: list[Request] = []

    def handler(_: Context, r: Request) -> Answer:
        requests.append(r)
        return json_response({"id": r.param("id")})

    http = Http(
        "POST",
        "/things/a%2541%20%C3%A4%3F?x=1&x=2&empty=&s=%C3%A4",
        b"\xff\x00binary",
        (("Cookie", "auth=t; other=1"), ("X-Many", "a"), ("X-Many", "b")),
    )
    event = door(http)
    assert is_http(event)
    app = small_app(("/things/{id}", handler), method="POST", may_wait_s=0)
    status, _, body = answered(respond(app, event))
    (request,) = requests
    assert (status, json.loads(body)) == (200, {"id": "a%41 ä?"})
    assert request.query == {"x": ["1", "2"], "empty": [""], "s": ["ä"]}
    assert request.headers["cookie"] == "auth=t; other=1"
    assert request.headers["x-many"].replace(" ", "") == "a,b"
    assert request.body == b"\xff\x00binary"
    assert (request.client, request.final) == ("203.0.113.9", True)


@pytest.mark.parametrize("door", [rest_event, function_url_event])
def test_encoded_slash_in_a_name_is_preserved(door: Door) -> None:
    app = small_app(("/things/{id}", lambda c, r: json_response(r.param("id"))))
    assert answered(respond(app, door(Http("GET", "/things/a%2Fb"))))[2] == b'"a/b"'


def test_client_address_is_accepted_only_from_the_authenticated_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests: list[Request] = []

    def handler(_: Context, r: Request) -> Answer:
        requests.append(r)
        return json_response({})

    app = small_app(("/who", handler), may_wait_s=0)
    headers = (("x-det-viewer", "198.51.100.7"), ("x-det-front", "secret"))
    respond(app, function_url_event(Http("GET", "/who", headers=headers)))
    monkeypatch.setenv("DET_FRONT_SECRET", "secret")
    respond(app, function_url_event(Http("GET", "/who", headers=headers)))
    respond(
        app, function_url_event(Http("GET", "/who", headers=(headers[0], ("x-det-front", "s"))))
    )
    assert [r.client for r in requests] == ["203.0.113.9", "198.51.100.7", "203.0.113.9"]
    assert not any("x-det-front" in r.headers for r in requests)


def test_public_url_is_the_authenticated_distribution_or_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses: list[str] = []

    def handler(context: Context, request: Request) -> Answer:
        addresses.append(request.public_url)
        return json_response({})

    app = small_app(("/who", handler), may_wait_s=0)
    headers = (("x-forwarded-host", "d123.cloudfront.net"), ("x-det-front", "secret"))
    event = function_url_event(Http("GET", "/who", headers=headers))
    respond(app, event)
    monkeypatch.setenv("DET_FRONT_SECRET", "secret")
    respond(app, event)
    respond(
        app, function_url_event(Http("GET", "/who", headers=(headers[0], ("x-det-front", "s"))))
    )
    own = f"https://{event['requestContext']['domainName']}"
    assert addresses == [own, "https://d123.cloudfront.net", own]


@doors
def test_event_without_headers_and_body_is_accepted(door: Door) -> None:
    app = small_app(("/", lambda c, r: json_response(r.body.decode())))
    assert answered(respond(app, door(Http("GET", "/"))))[2] == b'""'


@doors
def test_binary_bodies_and_cookies_are_returned_unchanged(door: Door) -> None:
    answer = Response(b"\x00\xff", media_type="application/x-tar", headers={"Set-Cookie": "a=b"})
    app = small_app(("/x", lambda c, r: answer))
    status, headers, body = answered(respond(app, door(Http("GET", "/x"))))
    assert (status, body) == (200, b"\x00\xff")
    assert headers["content-type"] == "application/x-tar"
    assert headers["set-cookie"] == "a=b"


@doors
def test_rejects_a_response_above_six_megabytes(door: Door) -> None:
    noise = bytes(range(256)) * (MAX_ANSWER // 256)
    app = small_app(("/x", lambda c, r: Response(noise, media_type="application/x-tar")))
    status, _, body = answered(respond(app, door(Http("GET", "/x"))))
    assert status == 413
    assert "/x has 8.0 MiB" in json.loads(body)["error"]["error"]


def test_large_text_fits_if_the_client_accepts_gzip() -> None:
    large = json.dumps(["row"] * 1_200_000).encode()
    app = small_app(("/x", lambda c, r: Response(large)))
    plain = respond(app, http_api_event(Http("GET", "/x")))
    zipped = respond(app, http_api_event(Http("GET", "/x", headers=(("accept-encoding", "gzip"),))))
    assert (plain["statusCode"], zipped["statusCode"]) == (413, 200)


@doors
def test_stream_is_read_to_its_end(door: Door) -> None:
    def fetch(cursor: Any) -> Batch:
        at = cursor or 0
        lines = [b"%d\n" % at] if at in (0, 2, 4) else []
        return Batch(lines, at + 1, done=at == 4, unfinished=at == 3)

    delays: list[float] = []
    app = small_app(("/x", lambda c, r: Stream(fetch)))
    _, _, body = answered(respond(app, door(Http("GET", "/x")), sleep=delays.append))
    assert (body, delays) == (b"0\n2\n4\n", [1.0])


def test_endless_stream_ends_with_the_invocation() -> None:
    delays: list[float] = []
    app = small_app(("/x", lambda c, r: Stream(lambda cursor: Batch([], cursor, done=False))))
    event = http_api_event(Http("GET", "/x"))
    assert respond(app, event, remaining_s=10, sleep=delays.append)["statusCode"] == 200
    assert sum(delays) == pytest.approx(8)


def test_other_events_are_not_http() -> None:
    assert not is_http({"source": "aws.events", "detail-type": "Scheduled Event"})
    assert not is_http({"det": "tick"})
