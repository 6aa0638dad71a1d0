"""Determined's own client 0.38.1 and a cluster that wakes up or is busy: its retries and messages."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.api.app import unavailable
from det_controlplane.db.engine.errors import DatabaseDown

from tests.support.fake_api import FakeApi, Raw, RecordedRequest
from tests.support.stock import StockClient, stock_client

pytestmark = pytest.mark.slow

WAKING = unavailable(DatabaseDown("the database is waking up"))
USER = {"id": 1, "username": "determined", "admin": False, "active": True}


class Waking(FakeApi):
    """Answer like a cluster with a waking database, a number of times for each path."""

    def __init__(self) -> None:
        super().__init__()
        self.on("GET", "/info", {"version": "0.38.1", "cluster_id": "c", "sso_providers": []})
        self.on("POST", "/api/v1/auth/login", {"token": "t", "user": USER})
        self.on("GET", "/api/v1/me", {"user": USER})
        self.on("GET", "/api/v1/agents", {"agents": []})
        self.on("POST", "/api/v1/experiments", {"experiment": {"id": 7}, "warnings": []})

    def refuse(self, method: str, path: str, statuses: list[int], then: Any) -> None:
        def answer(request: RecordedRequest) -> Any:
            if not statuses:
                return then
            # The same answer with a shorter time, so that the test does not wait five seconds.
            return Raw(WAKING.body, {"Retry-After": "1"}, statuses.pop(0))

        self.on(method, path, answer)


@pytest.fixture
def cluster() -> Iterator[Waking]:
    with Waking() as api:
        yield api


@pytest.fixture
def stock(cluster: Waking, tmp_path: Path) -> Iterator[StockClient]:
    with stock_client(cluster.url, tmp_path) as client:
        client.env |= {"DET_USER": "determined", "DET_PASS": "Password1"}
        yield client


def signed_in(stock: StockClient) -> None:
    stock.det("user", "login", "determined", stdin="Password1\n")


def test_read_requests_are_retried(cluster: Waking, stock: StockClient) -> None:
    signed_in(stock)
    cluster.refuse("GET", "/api/v1/agents", [503, 429], {"agents": []})
    assert "Agent ID" in stock.det("agent", "list")
    assert len(cluster.sent("GET", "/api/v1/agents")) == 3


def test_sign_in_and_create_report_the_error_without_a_retry(
    cluster: Waking, stock: StockClient, tmp_path: Path
) -> None:
    cluster.refuse("POST", "/api/v1/auth/login", [503], {"token": "t", "user": USER})
    output = stock.refused("user", "login", "determined", stdin="Password1\n")
    assert "the database is waking up" in output
    signed_in(stock)

    (tmp_path / "one.yaml").write_text(json.dumps({"name": "one", "entrypoint": "true"}))
    cluster.refuse("POST", "/api/v1/experiments", [503], {"experiment": {"id": 7}, "warnings": []})
    assert "the database is waking up" in stock.refused("experiment", "create", "one.yaml")
    assert len(cluster.sent("POST", "/api/v1/experiments")) == 1, (
        "the experiment must not be created twice"
    )
