"""Every call of the stock client is answered with every field that its bindings name, in the right type.

Calls and messages are read from the installed client; tests/support/stock_world.py builds a small cluster by them.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from det_controlplane.api import routes

from tests.support.api import Api
from tests.support.played_agent import PlayedAgent
from tests.support.stock_asker import World
from tests.support.stock_catalog import Catalog, catalog, unreadable
from tests.support.stock_world import build

# These lists may only get shorter.
WITHOUT_A_ROUTE = ""
# Kubernetes.
REFUSED = """
delete_DeleteWorkspaceNamespaceBindings get_GetKubernetesResourceQuotas
post_BulkAutoCreateWorkspaceNamespaceBindings post_SetResourceQuotas
post_SetWorkspaceNamespaceBindings
"""
# Messages of answers above, of clouds, Kubernetes, and of containers that ended before their allocation.
NEVER_TOLD = """
v1AwsCustomTag v1K8PriorityClass v1LimitedJob
v1ResourcePoolAwsDetail v1ResourcePoolGcpDetail v1ResourcesFailure v1ResourcesStopped
v1SSOProvider v1WorkspaceNamespaceBinding
"""
FIELDS_NEVER_TOLD = "v1RBACJob.limited"


@pytest.fixture(scope="module")
def stock() -> Catalog:
    return catalog()


@pytest.fixture(scope="module")
def world(shared_api: Api, stock: Catalog) -> World:
    admin = shared_api.signed_in("admin")
    new_world = World(shared_api, stock, admin, PlayedAgent(shared_api, "a1"))
    build(new_world)
    return new_world


@pytest.fixture(scope="module")
def answers(world: World) -> list[tuple[str, str, Any]]:
    """Return the call, the type and the value of each answer."""
    calls = world.catalog.calls
    named_answers = [(name, answer) for name, every in world.told.items() for answer in every]
    return [
        (name, calls[name].answer, answer) for name, answer in named_answers if calls[name].answer
    ]


def test_calls_without_a_route_are_listed(stock: Catalog) -> None:
    assert sorted(set(stock.calls) - routed(stock)) == sorted(WITHOUT_A_ROUTE.split())


def test_every_call_with_a_route_is_tested_or_listed_as_refused(
    world: World, stock: Catalog
) -> None:
    assert sorted(routed(stock) - set(world.told)) == sorted(REFUSED.split())


@pytest.mark.parametrize("name", REFUSED.split())
def test_refused_call_has_a_reason(world: World, stock: Catalog, name: str) -> None:
    call = stock.calls[name]
    places = re.findall(r"\{(\w+)\}", call.path)
    response = world.caller.ask(call.method, call.url(dict.fromkeys(places, 1)), {})
    assert response.status in (404, 501)
    assert re.search("not found|belong to|does not run", response.error)


def test_responses_have_required_fields_of_the_right_type(
    stock: Catalog, answers: list[tuple[str, str, Any]]
) -> None:
    problems = {
        f"{name}: {problem}"
        for name, kind, answer in answers
        for problem in stock.problems(kind, answer)
    }
    assert sorted(problems) == []


def test_every_other_field_appears_in_some_response(
    stock: Catalog, answers: list[tuple[str, str, Any]]
) -> None:
    present_fields = {field for _, kind, answer in answers for field in stock.fields(kind, answer)}
    messages = {field.partition(".")[0] for field in present_fields}
    reached_fields: set[str] = set()
    for _, kind, _ in answers:
        reach(stock, kind, reached_fields)
    empty = {message for message in reached_fields if stock.messages[message]}
    assert sorted(empty - messages) == sorted(NEVER_TOLD.split())
    known_fields = {f"{m}.{name}" for m in messages for name in stock.messages[m]}
    assert sorted(known_fields - present_fields) == sorted(FIELDS_NEVER_TOLD.split())


def test_stock_client_parses_every_response(answers: list[tuple[str, str, Any]]) -> None:
    assert list(unreadable(messages_of(answers))) == []


def test_checks_detect_missing_fields_wrong_types_and_unknown_names(stock: Catalog) -> None:
    """The tests above pass; this one shows that they can fail."""
    user = {"id": 1, "username": "ada", "admin": False, "active": True}
    assert list(stock.problems("v1GetMeResponse", {"user": user})) == []
    for change in ({"admin": None}, {"admin": 1}, {"id": True}, {"id": "1"}, {"username": 3}):
        assert list(stock.problems("v1User", {**user, **change})) != []
    assert list(stock.problems("v1User", {**user, "modifiedAt": "yesterday"})) != []
    assert list(stock.problems("[v1User]", [{}])) != []
    assert list(stock.problems("{v1User}", {"a": {}})) != []
    assert list(stock.problems("v1OrderBy", "UP")) != []
    assert list(unreadable([("v1User", user), ("v1User", {})])) == ["v1User: KeyError('active')"]


def routed(stock: Catalog) -> set[str]:
    own_routes = {(route.method, without_names(route.path)) for route in routes.every()}
    return {
        name
        for name, call in stock.calls.items()
        if (call.method, without_names(call.path)) in own_routes
    }


def without_names(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def reach(stock: Catalog, kind: str, reached_fields: set[str]) -> None:
    """Add the messages that a value of this type may hold."""
    inner = kind.strip("[]{}")
    if inner in stock.messages and inner not in reached_fields:
        reached_fields.add(inner)
        for field in stock.messages[inner].values():
            reach(stock, field.type, reached_fields)


def messages_of(answers: list[tuple[str, str, Any]]) -> Iterator[tuple[str, Any]]:
    for _, kind, answer in answers:
        for message in answer if kind[0] == "[" else [answer]:
            yield kind.strip("[]"), message
