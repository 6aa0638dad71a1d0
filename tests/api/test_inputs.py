"""Models of bodies and queries are read with the tolerance of Determined's gateway."""

import inspect
from dataclasses import dataclass, field, is_dataclass
from datetime import datetime, timezone
from typing import Any, get_args, get_origin

import pytest
from det_controlplane.api import routes
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Answer, Request, Response
from det_controlplane.api.inputs import body_schema, query_schemas, read, read_body, read_query
from det_controlplane.api.listing import ListQuery
from det_controlplane.api.router import Route


@dataclass(frozen=True)
class Part:
    key: str
    size: int = 0


@dataclass(frozen=True)
class Whole:
    display_name: str = "unnamed"
    max_slots: int | None = None
    weight: float | None = None
    is_final: bool | None = None
    report_time: datetime | None = None
    ids: list[int] = field(default_factory=list)
    labels: list[str] | None = None
    values: dict[str, Any] = field(default_factory=dict)
    part: Part | None = None
    parts: list[Part] = field(default_factory=list)
    anything: Any = None


@dataclass(frozen=True)
class Query(ListQuery):
    user_ids: list[int] = field(default_factory=list)
    show_all: bool | None = None
    limit: int = 5


@dataclass(frozen=True)
class Period:
    after: datetime


@dataclass(frozen=True)
class Several:
    parts: list[dict[str, Any]] = field(default_factory=list, metadata={"items": Part})


def whole(**values: Any) -> Whole:
    return read(Whole, values)


def test_field_names_can_be_camel_case_or_snake_case() -> None:
    assert whole(displayName="a") == whole(display_name="a") == Whole(display_name="a")
    assert whole(displayName="a", display_name="b").display_name == "a"


def test_numbers_can_be_strings() -> None:
    assert whole(maxSlots="7", weight="1.5", ids=["1", 2, 3.0]) == Whole(
        max_slots=7, weight=1.5, ids=[1, 2, 3]
    )


def test_null_counts_as_absent_and_unknown_fields_are_ignored() -> None:
    assert whole(displayName=None, ids=None, part=None, unknown=1) == Whole()


def test_values_of_every_type_are_read() -> None:
    body = whole(
        isFinal=False, reportTime="2026-01-02T03:04:05Z", labels=["a", 1], values={"x": 1},
        part={"key": "k"}, parts=[{"key": "l", "size": "2"}], anything=[None],
    )  # fmt: skip
    assert body == Whole(
        is_final=False, report_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
        labels=["a", "1"], values={"x": 1}, part=Part("k"), parts=[Part("l", 2)], anything=[None],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"displayName": 1}, "displayName must be a string, not 1"),
        ({"maxSlots": "many"}, "maxSlots must be an integer, not 'many'"),
        ({"isFinal": "yes"}, "isFinal must be true or false, not 'yes'"),
        ({"part": {}}, "part.key is required"),
        ({"parts": [{"key": "a"}, {"key": ""}]}, "parts[1].key is required"),
        ({"parts": [{"key": "a", "size": []}]}, "parts[0].size must be an integer, not []"),
    ],
)
def test_error_names_the_field(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=r".*") as refusal:
        whole(**values)
    assert message in str(refusal.value)


def test_query_accepts_both_spellings_and_has_defaults() -> None:
    request = Request("GET", "/", {"userIds": ["1"], "user_ids": ["2"], "show_all": ["true"]})
    query = read_query(Query, request)
    assert (query.user_ids, query.show_all, query.limit) == ([1, 2], True, 5)
    older = Request("GET", "/", {"sort_by_attr": ["id"], "order_by": ["ORDER_BY_DESC"]})
    sort = read_query(Query, older).sort()
    assert (sort.by, sort.descending) == ("id", True)


def test_schemas_describe_the_models() -> None:
    assert body_schema(Part) == {
        "type": "object", "required": ["key"],
        "properties": {
            "key": {"type": "string"},
            "size": {"type": "string", "format": "int64", "description": "or a number"},
        },
    }  # fmt: skip
    assert query_schemas(Query)["showAll"] == {"type": "boolean"}


def test_route_calls_its_handler_with_query_and_body_models() -> None:
    def handler(ctx: object, request: Request, query: Query, body: Part) -> Answer:
        return Response(f"{query.limit} {body.key}".encode())

    request = Request("POST", "/x", {"limit": ["3"]}, body=b'{"key": "k"}')
    answer = Route("POST", "/x", handler).answer(None, request)  # type: ignore[arg-type]
    assert answer == Response(b"3 k")


def test_handlers_accept_only_request_query_and_body() -> None:
    for route in routes.every():
        names = list(inspect.signature(route.handler).parameters)
        assert names[:2] == ["ctx", "request"], route.path
        assert set(names[2:]) <= {"query", "body"}, route.path
        models = [model for model in (route.query, route.body) if model is not None]
        assert len(models) == len(names) - 2, route.path
        assert all(is_dataclass(_item(model)) for model in models), route.path


def _item(model: Any) -> Any:
    """Return the model of the entries of a list, and a dataclass for a whole document."""
    if model == dict[str, Any]:
        return Whole
    return get_args(model)[0] if get_origin(model) is list else model


def test_a_body_may_be_a_list_or_a_whole_document() -> None:
    parts = Request("POST", "/x", body=b'[{"key": "k", "size": "2"}]')
    assert read_body(list[Part], parts) == [Part("k", 2)]
    assert read_body(list[Part], Request("POST", "/x")) == []
    with pytest.raises(BadRequest, match=r"the body\[0\].key is required"):
        read_body(list[Part], Request("POST", "/x", body=b"[{}]"))
    with pytest.raises(BadRequest, match="the body must be a list, not"):
        read_body(list[Part], Request("POST", "/x", body=b"{}"))
    document = Request("POST", "/x", body=b'{"a_b": null}')
    assert read_body(dict[str, Any], document) == {"a_b": None}
    assert body_schema(dict[str, Any]) == {"type": "object"}
    assert body_schema(list[Part]) == {"type": "array", "items": body_schema(Part)}


def test_a_required_parameter_of_a_query_is_named() -> None:
    with pytest.raises(BadRequest, match="after is required"):
        read_query(Period, Request("GET", "/"))
    with pytest.raises(BadRequest, match="after must be a time like"):
        read_query(Period, Request("GET", "/", {"after": ["yesterday"]}))
    period = read_query(Period, Request("GET", "/", {"after": ["2026-01-02T03:04:05Z"]}))
    assert period.after == datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    assert query_schemas(Period)["after"]["required"] is True


def test_objects_that_a_handler_reads_itself_are_described() -> None:
    assert read(Several, {"parts": [{"size": "x"}]}).parts == [{"size": "x"}]
    assert body_schema(Several)["properties"]["parts"]["items"] == body_schema(Part)
    with pytest.raises(BadRequest, match="parts must be a list of objects, not 1"):
        read(Several, {"parts": [1]})
