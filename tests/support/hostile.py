"""Send generated requests to an API in another process, and report forbidden answers.

`python -m tests.support.hostile DATABASE_URL --requests N --seed S` prints JSON: findings, counts, peak memory. With
`--rbac`, roles decide, and a user with each role sends requests, too.
"""

import argparse
import gzip
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from det_controlplane.api import inputs, routes
from det_controlplane.api.http import Request
from det_controlplane.api.inputs import body_schema, query_schemas
from det_controlplane.api.openapi import description
from det_controlplane.api.router import Route
from det_controlplane.core.config.cluster import Authz
from det_controlplane.core.people.roles import ROLES
from det_controlplane.db.engine.database import Database
from sqlalchemy import text

from tests.support.api import PASSWORD, Api, ApiResponse, Caller, api_over, config_of
from tests.support.house import R, assignment, id_of
from tests.support.planted_secrets import MARK, played_secrets
from tests.support.played_agent import PlayedAgent

SLOW_CPU_S = 10.0
_NOT_OFFERED = 501
_CALLERS = {"stranger": 1, "user": 5, "admin": 5, "task": 3, "narrow": 1, "agent": 1}
# The account of an administrator has the role of one.
_GIVEN = tuple(role for role in ROLES if role != "ClusterAdmin")
_AGENTS = "/agents/"

_TEXTS = (
    "", "a", "x" * 300, "..", "../../etc/passwd", "/", "%00", "\x00", "\ud800", "é", "²", "null", "true", "-1", "0",
    "1", "9" * 30, "1e400", "NaN", "Infinity", "2026-11-22T00:00:00Z", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999-23:59",
    "(a+)+$", "[", "%", "_", "';--", "{", "{}", "[]", '{"a": 1}', "a: [", "STATE_ACTIVE", "SORT_BY_ID", "ORDER_BY_DESC",
    "METRIC_TYPE_VALIDATION", "EXPERIMENT", "NTSC", "global", "experiment", "tasks", "validation", "loss", "default",
    "determined", "admin", "PERIOD_DAILY", "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY", "batches", "id",
    "name", "b.c.d",
)  # fmt: skip
_NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 10, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, float("nan"), "1",
    "²",
)  # fmt: skip


@dataclass
class Findings:
    asked: int = 0
    wrong: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    told_secrets: list[str] = field(default_factory=list)
    undeclared: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    answered: set[str] = field(default_factory=set)
    peak_mib: float = 0.0

    @property
    def clean(self) -> bool:
        return not (self.wrong or self.slow or self.told_secrets or self.undeclared)


class Generator:
    """Make requests from the description of the API: mostly of the right form, with values that are not."""

    def __init__(self, rng: random.Random, places: dict[str, list[str]]) -> None:
        self._rng, self._places = rng, places
        self._described = description(routes.every())["paths"]

    def request(self, route: Route) -> tuple[str, Any, dict[str, list[str]], dict[str, str]]:
        path = "/".join(self._segment(part) for part in route.path.split("/"))
        operation = self._described[route.path.replace("...", "")][route.method.lower()]
        query: dict[str, list[str]] = {}
        body: Any = None
        for parameter in operation["parameters"]:
            if parameter["in"] == "query" and self._rng.random() < 0.35:
                query[parameter["name"]] = [
                    self._text(parameter["name"]) for _ in range(self._times())
                ]
            elif parameter["in"] == "body":
                body = self._body(parameter["schema"])
        headers = {"idempotency-key": self._text("key")} if self._rng.random() < 0.05 else {}
        if body is not None and not isinstance(body, bytes) and self._rng.random() < 0.03:
            headers["content-encoding"] = "gzip"
            body = gzip.compress(json.dumps(body).encode()) if self._rng.random() < 0.7 else b"\x1f"
        return path, body, query, headers

    def _times(self) -> int:
        return self._rng.choice((1, 1, 1, 2, 5))

    def _segment(self, part: str) -> str:
        return self._text(part.strip("{}.")) if part.startswith("{") else part

    def _text(self, name: str) -> str:
        ids = self._places.get(name) or self._places["ids"]
        if self._rng.random() < 0.75:
            return self._rng.choice(ids)
        text = self._rng.choice(_TEXTS)
        return text.encode("utf-8", "replace").decode()

    def _body(self, schema: dict[str, Any]) -> Any:
        if self._rng.random() < 0.04:
            return self._rng.choice(
                (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 5000, b'{"a":' * 300)
            )
        return self._value("", schema, 0)

    def _value(self, name: str, schema: dict[str, Any], depth: int) -> Any:
        if self._rng.random() < 0.08:
            return self._anything(depth)
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            inner = schema.get("items") or {}
            return [self._value(name, inner, depth + 1) for _ in range(self._rng.choice((0, 1, 2)))]
        if kind == "boolean":
            return self._rng.random() < 0.5
        if kind in ("integer", "number") or schema.get("format") == "int64":
            known_places = self._places.get(name)
            return self._rng.choice(
                known_places if known_places and self._rng.random() < 0.7 else _NUMBERS
            )
        if kind == "string" or name in self._places:
            return self._text(name)
        return self._anything(depth)

    def _object(self, schema: dict[str, Any], depth: int) -> Any:
        fields = schema.get("properties") or {}
        required = set(schema.get("required", ()))
        value = {
            n: self._value(n, inner, depth + 1)
            for n, inner in fields.items()
            if n in required or self._rng.random() < 0.6
        }
        if not fields:
            value = {self._text("key"): self._anything(depth + 1) for _ in range(2)}
        return value

    def _anything(self, depth: int) -> Any:
        pick = self._rng.randrange(8 if depth < 4 else 5)
        if pick == 0:
            return None
        if pick == 1:
            return self._rng.choice(_NUMBERS)
        if pick == 2:
            return self._rng.choice(_TEXTS)
        if pick == 3:
            return self._rng.random() < 0.5
        if pick == 4:
            return self._text("ids")
        if pick == 5:
            return [self._anything(depth + 1) for _ in range(2)]
        return {self._rng.choice(_TEXTS): self._anything(depth + 1) for _ in range(2)}


class World:
    """A cluster with something of everything, and a token for each kind of caller."""

    def __init__(self, api: Api) -> None:
        self.api = api
        admin, user = api.signed_in("admin"), api.signed_in("determined")
        agent = PlayedAgent(api, "agent-1")
        agent.join()
        secrets = played_secrets(api, admin, user, agent)
        self._agents = 0
        anonymous = api.anonymous()
        self.callers = {
            "stranger": anonymous,
            "task": anonymous,
            "narrow": anonymous,
            "user": user,
            "admin": admin,
            "agent": agent.caller,
        }
        self.accounts = {"user": "determined", "admin": "admin"}
        self.odds = dict(_CALLERS)
        assert self.start_tasks()
        self.places = self._places_of(user, secrets)
        self.remember_accounts()

    def remember_accounts(self) -> None:
        with self.api.ctx.db.begin() as tx:
            self.rows = [dict(row) for row in tx.execute(text(_ACCOUNTS)).mappings()]

    def let_roles_decide(self) -> None:
        """Give one user each role in a workspace. Its owner may edit everything there."""
        admin = self.callers["admin"]
        workspace = int(self.places["workspaceId"][0])
        for role in _GIVEN:
            name = f"a-{role}"
            new = {"user": {"username": name, "active": True}, "password": PASSWORD}
            person = admin.post("/api/v1/users", new)["user"]["id"]
            place = workspace if ROLES[role].of_workspaces else None
            admin.post(f"{R}/add-assignments", assignment(role, place, user=person))
            self.callers[role] = self.api.signed_in(name)
            self.accounts[role], self.odds[role] = name, 2
        editor = assignment("Editor", user=id_of(self.callers["user"]))
        admin.post(f"{R}/add-assignments", editor)
        self.remember_accounts()
        self.api.ctx.config = replace(self.api.ctx.config, authz=Authz.RBAC)

    def start_tasks(self) -> bool:
        """Start two tasks on an agent, with tokens that end with their tasks."""
        self._agents += 1
        name = f"agent-of-tasks-{self._agents}"
        agent, user = PlayedAgent(self.api, name), self.callers["user"]
        try:
            agent.join()
        except AssertionError:
            return False  # an earlier generated request has revoked the token for joining
        kinds: dict[str, dict[str, Any]] = {
            "task": {},
            "narrow": {"environment": {"det_token": "task"}},
        }
        for kind, config in kinds.items():
            request = {"config": config_of(**config), "activate": True}
            if user.ask("POST", "/api/v1/experiments", request).status != 200:
                return False  # an earlier generated request forbids it
            before = set(agent.containers)
            self.api.tick()
            for order in agent.poll():
                if order["id"] not in before:
                    self.callers[kind] = self.api.with_token(order["spec"]["session_token"])
        return True

    def _places_of(self, user: Caller, secrets: dict[str, str]) -> dict[str, list[str]]:
        ids = ["1", "2", "3"]
        tasks = [
            t["taskId"] for t in user.get("/api/v1/tasks").get("allocationIdToSummary", {}).values()
        ]
        places = {name: [value, *ids] for name, value in secrets.items()}
        configs = [
            json.dumps({"name": "x", "entrypoint": "true", "searcher": {"name": "single", "metric": "loss"}}),
            "name: x", "{", "a: &a [*a]", "searcher: {name: adaptive_asha, metric: loss, max_trials: 10000000}",
        ]  # fmt: skip
        return {
            **places,
            "ids": ids,
            "config": configs,
            "overrideConfig": configs,
            "taskIds": tasks or ids,
            "filter": ["{}", '{"filterGroup": {}}', "(a", '{"filterGroup":{"children":[]}}'],
            "sort": ["id=asc", "id=", "x=desc", "name=desc,id=asc"],
            "sortBy": ["SORT_BY_ID", "SORT_BY_NAME", "SORT_BY_START_TIME"],
            "orderBy": ["ORDER_BY_ASC", "ORDER_BY_DESC"],
            "limit": ["1", "0", "-1", "-2", "10", "1000000"],
            "offset": ["0", "-1", "5", "100000"],
            "key": ["a", "b", "c d"],
            "agentId": ["agent-1"],
            "resourcePoolName": ["default", "reserved"],
            "poolName": ["default"],
        }


class _Reads:
    """Record the names that handlers read, for a comparison with declared ones."""

    def __init__(self) -> None:
        self.query: set[str] = set()
        self.body: set[str] = set()
        self._texts, self._value_of = Request.texts, inputs.value_of

    def texts(self, request: Request, *names: str) -> list[str]:
        self.query.update(names[:1])
        return self._texts(request, *names)

    def value_of(self, values: Mapping[str, Any], name: str) -> Any:
        self.body.add(name)
        return self._value_of(values, name)


def run(database_url: str, requests: int, seed: int, rbac: bool) -> Findings:
    rng, findings = random.Random(seed), Findings()
    database = Database(database_url)
    with tempfile.TemporaryDirectory() as folder, api_over(database, Path(folder)) as api:
        world = World(api)
        if rbac:
            world.let_roles_decide()
        generator = Generator(rng, world.places)
        table = list(routes.every())
        for at in range(requests):
            route = table[at % len(table)] if at < len(table) * 2 else rng.choice(table)
            _one(world, route, generator, rng, findings)
    database.dispose()
    findings.peak_mib = _peak_mib()
    return findings


def _peak_mib() -> float:
    """Return the peak memory of this process; getrusage also counts the parent process."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _one(
    world: World, route: Route, generator: Generator, rng: random.Random, findings: Findings
) -> None:
    path, body, query, headers = generator.request(route)
    role = rng.choices(tuple(world.odds), tuple(world.odds.values()))[0]
    reads = _Reads()
    start_time = time.process_time()
    request_text = f"{role}: {route.method} {path} {query} {body!r} {headers}"[:600]
    with (
        patch.object(Request, "texts", lambda request, *names: reads.texts(request, *names)),
        patch.object(inputs, "value_of", reads.value_of),
    ):
        try:
            response = world.callers[role].ask(route.method, path, body, query, headers)
        except (AssertionError, Exception) as e:
            findings.wrong.append(f"{request_text}: {type(e).__name__}: {e}"[:900])
            return
    judge(findings, route, role, response, request_text, time.process_time() - start_time)
    if len([part for part in path.split("/") if part]) == route.path.count(
        "/"
    ):  # else it may be another route
        _hold_against_description(findings, route, reads)
    if response.status == 401 and role in world.accounts:
        _sign_in_again(world, role)
    if response.status == 401 and role in ("task", "narrow") and findings.asked % 20 == 0:
        world.start_tasks()


def judge(
    findings: Findings,
    route: Route,
    role: str,
    response: ApiResponse,
    request_text: str,
    cpu_s: float,
) -> None:
    """Record the problems of an answer."""
    findings.asked += 1
    findings.statuses[response.status] += 1
    if response.status == 200:
        findings.answered.add(f"{route.method} {route.path}")
    if response.status >= 500 and response.status != _NOT_OFFERED:
        findings.wrong.append(f"{request_text}: {response.status} {response.body[:300]!r}")
    if cpu_s > SLOW_CPU_S:
        findings.slow.append(f"{request_text}: {cpu_s:.1f} s")
    # Only agents receive the secrets of their containers.
    if MARK.encode() in response.body and not (role == "agent" and route.path.startswith(_AGENTS)):
        findings.told_secrets.append(request_text)


def _hold_against_description(findings: Findings, route: Route, reads: _Reads) -> None:
    fields = "" if route.body is None else json.dumps(body_schema(route.body))
    missing = reads.query - set({} if route.query is None else query_schemas(route.query))
    missing |= {name for name in reads.body if f'"{name}"' not in fields}
    for name in sorted(missing):
        message = f"{route.method} {route.path}: {name}"
        if message not in findings.undeclared:
            findings.undeclared.append(message)


_ACCOUNTS = "SELECT id, username, active, admin, remote, password_hash FROM users"
_RESTORE = """UPDATE users SET username = :username, active = :active, admin = :admin, remote = :remote,
    password_hash = :password_hash WHERE id = :id"""


def _sign_in_again(world: World, role: str) -> None:
    """Restore the accounts, which generated requests may have closed."""
    with world.api.ctx.db.begin() as tx:
        tx.execute(text("DELETE FROM sign_in_failures"))
        for account in world.rows:
            tx.execute(text(_RESTORE), account)
    world.callers[role] = world.api.signed_in(world.accounts[role])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rbac", action="store_true")
    args = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    findings = run(args.database_url, args.requests, args.seed, args.rbac)
    report = {**vars(findings), "answered": len(findings.answered)}
    print(json.dumps(report, indent=1, default=str))
    return 0 if findings.clean else 1


if __name__ == "__main__":
    sys.exit(main())
