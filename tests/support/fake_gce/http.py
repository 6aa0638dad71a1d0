"""The fake's routes: paths, filters, pages and lost answers."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support import threaded
from tests.support.fake_gce.cloud import API, ZONES, Body, FakeGce
from tests.support.fake_gce.errors import GceError

Route = Callable[..., Body]
_TERM = re.compile(r'([\w.-]+)\s*(=|eq)\s*("[^"]*"|[^\s")]+)')


def _insert(fake: FakeGce, query: dict[str, str], body: Body, project: str, zone: str) -> Body:
    operation = fake.insert(project, zone, body, query.get("requestId", ""))
    return operation.shown(fake.now())


def _bulk(fake: FakeGce, query: dict[str, str], body: Body, project: str, region: str) -> Body:
    operation = fake.bulk_insert(project, region, body, query.get("requestId", ""))
    return operation.shown(fake.now())


def _get(fake: FakeGce, query: dict[str, str], body: Body, *path: str) -> Body:
    return fake.get(*path).shown(fake.now())


def _delete(fake: FakeGce, query: dict[str, str], body: Body, *path: str) -> Body:
    return fake.delete(*path).shown(fake.now())


def _maintain(fake: FakeGce, query: dict[str, str], body: Body, *path: str) -> Body:
    return fake.simulate_maintenance(*path).shown(fake.now())


def _serial(fake: FakeGce, query: dict[str, str], body: Body, *path: str) -> Body:
    return {"contents": fake.get(*path).console, "start": "0", "next": "0"}


def _operation(fake: FakeGce, query: dict[str, str], body: Body, *path: str) -> Body:
    return fake.operation(*path).shown(fake.now())


def _instances(fake: FakeGce, query: dict[str, str], body: Body, project: str) -> Body:
    rows = [(f"zones/{i.zone}", i.shown(fake.now())) for i in fake.listed(project)]
    return _page(fake, query, "instances", rows)


def _operations(fake: FakeGce, query: dict[str, str], body: Body, project: str) -> Body:
    rows = [(o.place, o.shown(fake.now())) for o in fake.operations if o.project == project]
    return _page(fake, query, "operations", rows)


def _insert_policy(
    fake: FakeGce, query: dict[str, str], body: Body, project: str, region: str
) -> Body:
    return fake.insert_policy(project, region, body).shown(fake.now())


def _delete_policy(fake: FakeGce, query: dict[str, str], body: Body, *path: str) -> Body:
    return fake.delete_policy(*path).shown(fake.now())


def _policies(fake: FakeGce, query: dict[str, str], body: Body, project: str, region: str) -> Body:
    rows = [body for key, body in fake.policies.items() if key[:2] == (project, region)]
    return {"items": [row for row in rows if _matches(row, query.get("filter", ""))]}


def _machine_types(fake: FakeGce, query: dict[str, str], body: Body, project: str) -> Body:
    rows = [
        (f"zones/{zone}", {"name": name, "zone": zone, **about})
        for zone in ZONES
        for name, about in fake.machine_types.items()
    ]
    return _page(fake, query, "machineTypes", rows)


def _accelerator_types(fake: FakeGce, query: dict[str, str], body: Body, project: str) -> Body:
    link = f"{API}/projects/{project}/zones/"
    rows = [
        (f"zones/{zone}", {"name": name, "zone": link + zone, "maximumCardsPerInstance": 4})
        for zone in ZONES[:2]
        for name in ("nvidia-tesla-t4", "nvidia-tesla-t4-vws")
    ]
    return _page(fake, query, "acceleratorTypes", rows)


def _skus(fake: FakeGce, query: dict[str, str], body: Body) -> Body:
    start = int(query.get("pageToken") or 0)
    end = start + fake.most_per_page
    following = {"nextPageToken": str(end)} if end < len(fake.skus) else {}
    return {"skus": fake.skus[start:end], **following}


_P, _Z, _R, _N = r"projects/([^/]+)", r"zones/([^/]+)", r"regions/([^/]+)", r"([^/]+)"
ROUTES: Sequence[tuple[str, str, Route]] = (
    ("POST", f"{_P}/{_Z}/instances", _insert),
    ("POST", f"{_P}/{_R}/instances/bulkInsert", _bulk),
    ("GET", f"{_P}/{_Z}/instances/{_N}", _get),
    ("DELETE", f"{_P}/{_Z}/instances/{_N}", _delete),
    ("GET", f"{_P}/{_Z}/instances/{_N}/serialPort", _serial),
    ("POST", f"{_P}/{_Z}/instances/{_N}/simulateMaintenanceEvent", _maintain),
    ("GET", rf"{_P}/((?:zones|regions)/[^/]+)/operations/{_N}", _operation),
    ("POST", f"{_P}/{_R}/resourcePolicies", _insert_policy),
    ("GET", f"{_P}/{_R}/resourcePolicies", _policies),
    ("DELETE", f"{_P}/{_R}/resourcePolicies/{_N}", _delete_policy),
    ("GET", f"{_P}/aggregated/instances", _instances),
    ("GET", f"{_P}/aggregated/operations", _operations),
    ("GET", f"{_P}/aggregated/machineTypes", _machine_types),
    ("GET", f"{_P}/aggregated/acceleratorTypes", _accelerator_types),
)


def _page(fake: FakeGce, query: dict[str, str], kind: str, rows: list[tuple[str, Body]]) -> Body:
    """Return a page of a list over all zones. Zones without a row on it carry a warning, as they do there."""
    matching = [(place, row) for place, row in rows if _matches(row, query.get("filter", ""))]
    size = min(int(query.get("maxResults", 500)), fake.most_per_page)
    start = int(query.get("pageToken") or 0)
    items: dict[str, Body] = {}
    for zone in ZONES:
        code = "UNREACHABLE" if zone in fake.unreachable_zones else "NO_RESULTS_ON_PAGE"
        items[f"zones/{zone}"] = {"warning": {"code": code, "message": f"{code}: zones/{zone}"}}
    for place, row in matching[start : start + size]:
        items.setdefault(place, {}).pop("warning", None)
        items[place].setdefault(kind, []).append(row)
    answer: Body = {"items": items}
    if start + size < len(matching):
        answer["nextPageToken"] = str(start + size)
    return answer


def _matches(row: Body, text_filter: str) -> bool:
    terms = _TERM.findall(text_filter)
    if text_filter and (not terms or _TERM.sub("", text_filter).replace("AND", "").strip(" ()")):
        raise GceError(400, "invalid", f"Invalid value for field 'filter': '{text_filter}'.")
    for key, operator, quoted in terms:
        value: Any = row
        for part in key.split("."):
            value = value.get(part, "") if isinstance(value, dict) else ""
        text = quoted.strip('"')
        if not (re.fullmatch(text, str(value)) if operator == "eq" else value == text):
            return False
    return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, fake: FakeGce, *args: Any) -> None:
        self._fake = fake
        super().__init__(*args)

    def log_message(self, *args: Any) -> None:
        """Keep the output of tests clean."""

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        fake, parts = self._fake, urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if fake.silent:
            self.close_connection = True
            return
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        with fake.lock:
            fake.calls.append(f"{method} {parts.path.removeprefix('/compute/v1/')}")
            status, body = self._route(method, parts.path, query, json.loads(content or b"{}"))
            if method == "POST" and status == 200 and fake.answers_to_lose:
                fake.answers_to_lose -= 1
                self.close_connection = True
                return
        self._send(status, body)

    def _route(self, method: str, path: str, query: dict[str, str], body: Body) -> tuple[int, Body]:
        try:
            for route_method, pattern, route in ROUTES:
                # `det deploy` puts the service's name before the paths of a cloud that is not Google's.
                match = re.fullmatch(f"(?:/compute)?/compute/v1/{pattern}", path)
                if match and route_method == method:
                    return 200, route(self._fake, query, body, *match.groups())
            if path == "/v1/services/6F81-5844-456A/skus":
                return 200, _skus(self._fake, query, body)
            raise GceError(404, "notFound", f"no route {method} {path}")
        except GceError as e:
            return e.status, e.shown()

    def _send(self, status: int, body: Body) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def serving(fake: FakeGce) -> Iterator[str]:
    """Serve the fake, and yield the address for the client's `api_endpoint`."""
    server = _Server(("127.0.0.1", 0), partial(_Handler, fake))
    with threaded.serving(server) as address:
        yield address
