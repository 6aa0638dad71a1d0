"""Containers of one allocation exchange data through the API, as often as they like."""

import json
import threading
from typing import Any

import pytest
from det_controlplane.db.engine.database import Database
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Oversized, Unready
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from det_controlplane.services.tasks import allocations
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, context

_ALLOCATION = text("SELECT id FROM allocations")


@pytest.fixture
def ctx(database: Database) -> Context:
    new_context = context(database)
    creation.create(new_context, OWNER, creation.Submission(config=SINGLE))
    agent = Agent.joined(new_context)
    tick.run(new_context)
    agent.poll()
    return new_context


def send(ctx: Context, request: str, data: Any, peers: int = 2) -> Any:
    (row,) = ctx.db.read(_ALLOCATION)
    gathering = allocations.all_gather(ctx, OWNER, row.id, request, peers, data)
    return [json.loads(text) for text in gathering]


def test_peers_wait_for_each_other_and_receive_all_data(ctx: Context) -> None:
    with pytest.raises(Unready, match="1 of 2 peers"):
        send(ctx, "a", {"rank": 0})
    assert send(ctx, "b", {"rank": 1}) == [{"rank": 0}, {"rank": 1}]
    assert send(ctx, "a", {"rank": 0}) == [{"rank": 0}, {"rank": 1}]


def test_second_round_does_not_return_data_of_the_first(ctx: Context) -> None:
    with pytest.raises(Unready):
        send(ctx, "a", "first of a")
    send(ctx, "b", "first of b")
    with pytest.raises(Unready, match="1 of 2 peers"):
        send(ctx, "c", "second of a")
    assert send(ctx, "d", "second of b") == ["second of a", "second of b"]
    assert send(ctx, "a", "first of a") == ["first of a", "first of b"]


def test_concurrent_peers_form_complete_rounds(ctx: Context) -> None:
    def arrive(request: str) -> None:
        try:
            send(ctx, request, request, peers=3)
        except Unready:
            pass

    threads = [threading.Thread(target=arrive, args=(str(n),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rounds = {tuple(send(ctx, str(n), None, peers=3)) for n in range(6)}
    assert sorted(len(requests) for requests in rounds) == [3, 3]
    assert sorted(request for requests in rounds for request in requests) == list("012345")


def test_rejects_number_of_peers_below_one(ctx: Context) -> None:
    with pytest.raises(Invalid, match="numPeers"):
        send(ctx, "a", None, peers=0)


def test_size_limit_of_a_round_is_divided_among_peers(ctx: Context) -> None:
    """A round of large pieces would fill the memory of the API, once for each that asks for it."""
    large = "x" * (1 << 20)
    with pytest.raises(Oversized, match="each of 64 peers may send 262144"):
        send(ctx, "a", large, peers=64)
    assert send(ctx, "a", large, peers=1) == [large]
