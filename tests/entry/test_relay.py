"""Requests to /proxy/ reach the task's container, without the API's tokens and not from strangers."""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.config.cluster import Authz
from det_controlplane.db.engine.database import Database
from sqlalchemy import text
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.api import Api, Caller, api_over, create
from tests.support.house import House
from tests.support.played_agent import PlayedAgent
from tests.support.ports import free_port
from tests.support.relayed import Proxied, behind_an_api, proxied
from tests.support.threaded import serving

PIECE = bytes(range(256)) * 256
ALLOWED = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
Serve = Callable[[Api, list[dict[str, Any]]], AbstractContextManager[Proxied]]


class Echo(BaseHTTPRequestHandler):
    """Record requests, and answer as the path says."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.endswith("/large"):
            self._large()
        elif self.path.endswith("/cookies"):
            self._cookies()
        elif "/cached/" in self.path:
            self._cached(self.path.rpartition("/")[2])
        elif "/status/" in self.path:
            status = self.path.rpartition("/")[2]
            self.wfile.write(b"HTTP/1.1 %s Odd\r\nContent-Length: 0\r\n\r\n" % status.encode())
        elif self.path.endswith("/vanish"):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            self.close_connection = True
        else:
            self._echo()

    do_POST = do_PUT = do_CONNECT = do_GET

    def _echo(self) -> None:
        length = self.headers.get("Content-Length")
        request = {
            "method": self.command,
            "path": self.path,
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "body": len(self.rfile.read(int(length))) if length else len(self._chunks()),
        }
        body = json.dumps(request).encode()
        self.send_response(202)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _chunks(self) -> bytes:
        data = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return data

    def _large(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(64):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(PIECE), PIECE))
        self.wfile.write(b"0\r\n\r\n")

    def _cookies(self) -> None:
        self.send_response(200)
        for cookie in (
            "auth=stolen; Path=/",
            " = auth=nameless",
            "s=1; Path=/; Domain=x; HttpOnly",
            "t=2",
        ):
            self.send_header("Set-Cookie", cookie)
        self.send_header("Service-Worker-Allowed", "/")
        self.send_header("Clear-Site-Data", "*")
        self.send_header("NEL", "{}")
        self.send_header("Report-To", "{}")
        self.send_header("Alt-Svc", 'h2=":1"')
        self.send_header("Strict-Transport-Security", "max-age=9")
        self.send_header("Content-Security-Policy", "sandbox")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _cached(self, cache_control: str) -> None:
        self.send_response(200)
        self.send_header("Cache-Control", cache_control)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


@pytest.fixture
def web() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    with serving(server):
        yield server.server_port


def echoed(answer: tuple[http.client.HTTPResponse, bytes]) -> dict[str, Any]:
    assert answer[0].status == 202, answer[1]
    request: dict[str, Any] = json.loads(answer[1])
    return request


def test_requests_reach_the_task_and_responses_return(api: Api, web: int) -> None:
    with proxied(api, [{"proxy_port": web}]) as task:
        request = echoed(task.ask("GET", task.path(web, "/a%20b?x=1&y=%2F")))
        assert request["path"] == f"/proxy/{task.task}:{web}/a%20b?x=1&y=%2F"
        headers = dict(request["headers"])
        assert headers["host"] == task.netloc
        assert headers["x-forwarded-prefix"] == f"/proxy/{task.task}:{web}"
        assert echoed(task.ask("POST", task.path(web), body=PIECE * 40))["body"] == 40 * len(PIECE)
        chunked = echoed(task.ask("PUT", task.path(web), body=iter([PIECE] * 40)))
        assert chunked["body"] == 40 * len(PIECE)
        answer, body = task.ask("GET", task.path(web, "/large"))
        assert (answer.status, body == PIECE * 64) == (200, True)
        # Without a port it is the first.
        assert echoed(task.ask("GET", f"/proxy/{task.task}/"))["method"] == "GET"
        answer, _ = task.ask("GET", f"/proxy/{task.task}?x=1")
        assert (answer.status, answer.getheader("Location")) == (307, f"/proxy/{task.task}/?x=1")


def test_truncated_response_is_an_incomplete_read(api: Api, web: int) -> None:
    with proxied(api, [{"proxy_port": web}]) as task, pytest.raises(http.client.IncompleteRead):
        task.ask("GET", task.path(web, "/vanish"))


@pytest.mark.parametrize("serve", [proxied, behind_an_api])
def test_undefined_http_status_becomes_a_bad_gateway(api: Api, web: int, serve: Serve) -> None:
    with serve(api, [{"proxy_port": web}]) as task:
        for status in (600, 999):
            answer, body = task.ask("GET", task.path(web, f"/status/{status}"))
            assert answer.status == 502
            assert f"the task answered with status {status}" in json.loads(body)["error"]["error"]
        assert task.ask("GET", task.path(web, "/status/599"))[0].status == 599


@pytest.mark.parametrize("serve", [proxied, behind_an_api])
def test_rejects_connect(api: Api, web: int, serve: Serve) -> None:
    with serve(api, [{"proxy_port": web}]) as task:
        answer, body = task.ask("CONNECT", task.path(web))
        assert (answer.status, answer.getheader("Allow")) == (405, ALLOWED)
        assert "CONNECT" in json.loads(body)["error"]["error"]
        assert echoed(task.ask("GET", task.path(web)))["method"] == "GET"


def test_task_does_not_receive_api_tokens(api: Api, web: int) -> None:
    with proxied(api, [{"proxy_port": web}]) as task:
        token = task.owner.token
        cookie = {"Cookie": f"theme=dark; auth={token}; _xsrf=2"}
        own = {**cookie, "Authorization": "Bearer of-the-task"}
        for headers in (task.signed(), cookie, own):
            request = echoed(task.ask("GET", task.path(web), headers))
            assert token not in json.dumps(request)
        assert ["cookie", "theme=dark; _xsrf=2"] in request["headers"]
        assert ["authorization", "Bearer of-the-task"] in request["headers"]
        answer, body = task.ask("GET", task.path(web, f"/?token={token}"))
        assert (answer.status, b"carries a session token" in body) == (403, True)


def test_task_cannot_set_cookies_or_policies_of_the_api(api: Api, web: int) -> None:
    with proxied(api, [{"proxy_port": web}]) as task:
        answer, _ = task.ask("GET", task.path(web, "/cookies"))
        own = f"/proxy/{task.task}:{web}/"
        cookies = [f"s=1; HttpOnly; Path={own}", f"t=2; Path={own}"]
        assert answer.headers.get_all("Set-Cookie") == cookies
        assert answer.getheader("Service-Worker-Allowed") is None
        for hold in (
            "Clear-Site-Data", "NEL", "Report-To", "Alt-Svc", "Strict-Transport-Security",
        ):  # fmt: skip
            assert answer.getheader(hold) is None, hold


def test_callers_without_a_sign_in_reach_only_open_ports(api: Api, web: int) -> None:
    open_port = {"proxy_port": web, "unauthenticated": True}
    with proxied(api, [{"proxy_port": 9}, open_port]) as task:
        assert echoed(task.ask("GET", task.path(web), {}))["method"] == "GET"
        request = echoed(task.ask("GET", task.path(web)))
        assert task.owner.token not in json.dumps(request)
        for path in (task.path(9), task.path(10), "/proxy/none/", "/proxy/none:1/"):
            assert task.ask("GET", path, {})[0].status == 401
        assert task.ask("GET", task.path(10))[0].status == 404
        assert task.ask("GET", "/proxy/none/")[0].status == 404


def test_task_is_reachable_only_for_its_viewers_and_while_it_runs(api: Api, web: int) -> None:
    with proxied(api, [{"proxy_port": web}]) as task:
        house = House(api, api.signed_in("admin"))
        viewer, other = (
            house.person("viewer", "Viewer", 1),
            house.person("other", "Editor", house.red),
        )
        api.ctx.config = replace(api.ctx.config, authz=Authz.RBAC)

        def status_for(caller: Caller) -> int:
            headers = {"Authorization": f"Bearer {caller.token}"}
            return task.ask("GET", task.path(web), headers)[0].status

        assert [status_for(caller) for caller in (viewer, house.admin, other)] == [202, 202, 404]
        house.admin.post("/api/v1/trials/1/kill")
        task.agent.poll("terminated", exit_code=137)
        assert [status_for(caller) for caller in (viewer, house.admin, other)] == [404] * 3


def test_signed_in_browser_cannot_open_a_page_of_another_user(api: Api, web: int) -> None:
    """Its scripts would share the origin of the API and the session of the viewer."""
    admin = api.signed_in("admin")
    ports = [{"proxy_port": web, "unauthenticated": True}, {"proxy_port": 9}]
    with proxied(api, ports) as task:
        by_cookie = {"Cookie": f"auth={admin.token}"}
        for path in (task.path(web), task.path(web, f"/?token={task.token}"), task.path(9)):
            answer, body = task.ask("GET", path, by_cookie)
            assert (answer.status, b"act with your sign-in" in body) == (403, True), path
        assert echoed(task.ask("GET", task.path(web), {"Cookie": "auth=over"}))["method"] == "GET"
        assert echoed(task.ask("GET", task.path(web), {"Cookie": f"auth={task.owner.token}"}))
        assert echoed(task.ask("GET", task.path(web), {"Authorization": f"Bearer {admin.token}"}))
        own = task.netloc
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://{own}{task.path(web)}", additional_headers=by_cookie).close()


def test_every_session_cookie_of_a_browser_is_checked(api: Api, web: int) -> None:
    admin = api.signed_in("admin")
    with proxied(api, [{"proxy_port": web, "unauthenticated": True}]) as task:
        own = task.owner.token
        for cookies in (f"auth={admin.token}; auth=x", f"auth={own}; auth={admin.token}"):
            assert task.ask("GET", task.path(web), {"Cookie": cookies})[0].status == 403, cookies
        assert echoed(task.ask("GET", task.path(web), {"Cookie": f"auth=x; auth={own}"}))
        many = "; ".join(f"auth={n}" for n in range(9))
        assert task.ask("GET", task.path(web), {"Cookie": many})[0].status == 400


def test_other_sites_can_link_to_tasks_but_not_call_or_embed_them(api: Api, web: int) -> None:
    """Browsers leave the cookie out: a page of the task would have the viewer's session after all."""
    with proxied(api, [{"proxy_port": web, "unauthenticated": True}]) as task:
        evil = {"Origin": "https://evil.example"}
        embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}
        linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
        responses = [
            ("POST", evil), ("POST", {"Origin": "null"}), ("GET", embedded), ("POST", linked),
            ("GET", {**embedded, "Sec-Fetch-Site": "same-site"}),
            ("POST", {**evil, "Authorization": "Basic eDp5"}),  # of an address with a password
        ]  # fmt: skip
        for method, headers in responses:
            for path in (task.path(web), task.path(web, f"/?token={task.token}")):
                answer, body = task.ask(method, path, headers)
                assert (answer.status, b"pages of other sites" in body) == (403, True), headers
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://{task.netloc}{task.path(web)}", additional_headers=evil).close()
        same = {"Origin": f"http://{task.netloc}", "Sec-Fetch-Site": "same-origin"}
        passed_responses = [
            ("GET", linked), ("POST", same), ("GET", {**same, "Sec-Fetch-Dest": "iframe"}),
            ("POST", {**evil, "Authorization": f"Bearer {task.owner.token}"}),
        ]  # fmt: skip
        for method, headers in passed_responses:
            assert echoed(task.ask(method, task.path(web), headers))["method"] == method


def test_frame_ancestors_allows_only_the_same_site(api: Api, web: int) -> None:
    """Over plain HTTP, browsers do not mark requests for frames."""
    with proxied(api, [{"proxy_port": web}]) as task:
        answer, _ = task.ask("GET", task.path(web, "/cookies"))
        policies = answer.headers.get_all("Content-Security-Policy")
        assert policies == ["sandbox", "frame-ancestors 'self'"]


def test_cached_pages_are_revalidated(api: Api, web: int) -> None:
    with proxied(api, [{"proxy_port": web}]) as task:
        for sent_value, expected_value in (
            ("max-age=9,immutable", "no-cache"),
            ("No-Store", "no-store"),
        ):
            answer, _ = task.ask("GET", task.path(web, f"/cached/{sent_value}"))
            assert answer.headers.get_all("Cache-Control") == [expected_value]
            assert answer.getheader("Vary") == "Cookie"
        assert (
            task.ask("GET", task.path(web, "/cookies"))[0].getheader("Cache-Control") == "no-cache"
        )


def test_only_the_owners_browser_gets_a_service_worker(api: Api, web: int) -> None:
    """It would continue to answer for the task after another user has signed in."""
    script = {"Service-Worker": "script"}
    with proxied(api, [{"proxy_port": web, "unauthenticated": True}]) as task:
        for path in (task.path(web), task.path(web, f"/?token={task.token}")):
            assert task.ask("GET", path, script)[0].status == 403
        owners = {**script, "Cookie": f"auth={task.owner.token}"}
        assert echoed(task.ask("GET", task.path(web), owners))


def test_tasks_of_a_deactivated_user_are_open_only_to_administrators(api: Api, web: int) -> None:
    admin = api.signed_in("admin")
    with proxied(api, [{"proxy_port": web, "unauthenticated": True}]) as task:
        assert echoed(task.ask("GET", task.path(web), {}))
        me = task.owner.get("/api/v1/me")["user"]["id"]
        admin.done("PATCH", f"/api/v1/users/{me}", {"active": False})
        assert task.ask("GET", task.path(web), {})[0].status == 401
        assert task.ask("GET", task.path(web))[0].status == 401
        assert echoed(task.ask("GET", task.path(web), {"Authorization": f"Bearer {admin.token}"}))


def test_task_token_in_the_address_becomes_a_cookie_for_the_task(api: Api, web: int) -> None:
    with proxied(api, [{"proxy_port": web}]) as task:
        create(task.owner, activate=True)
        api.tick()
        (others,) = (o["spec"]["session_token"] for o in task.agent.poll() if "spec" in o)
        own_token = task.token
        path = task.path(web, f"/lab?token={own_token}")
        answer = task.ask("GET", path, {})
        assert echoed(answer)["path"].endswith(f"/lab?token={own_token}")
        cookie = answer[0].headers["Set-Cookie"]
        assert cookie.endswith(f"Path=/proxy/{task.task}:{web}/; HttpOnly; SameSite=Lax")
        back = {"Cookie": cookie.partition(";")[0]}
        request = echoed(task.ask("GET", task.path(web), back))
        assert "cookie" not in dict(request["headers"])
        by_header = {"Authorization": f"token {own_token}"}
        request = echoed(task.ask("GET", task.path(web), by_header))
        assert dict(request["headers"])["authorization"] == f"token {own_token}"
        assert task.ask("GET", task.path(web, f"/?token={others}"), {})[0].status == 401


def test_public_url_determines_the_forwarded_scheme(api: Api, web: int) -> None:
    """A distribution before a relay may use HTTP and not send the original protocol."""
    api.ctx.host.public_url = "https://cluster.example"
    with proxied(api, [{"proxy_port": web}]) as task:
        for host, scheme in (("cluster.example", "https"), (task.netloc, "http")):
            path = task.path(web, f"/lab?token={task.token}")
            answer = task.ask("GET", path, {"Host": host})
            assert dict(echoed(answer)["headers"])["x-forwarded-proto"] == scheme
            assert ("; Secure" in answer[0].headers["Set-Cookie"]) == (scheme == "https")


def test_closed_port_of_a_task_is_reported(api: Api) -> None:
    port = free_port()
    with proxied(api, [{"proxy_port": port}]) as task:
        answer, body = task.ask("GET", task.path(port))
        assert answer.status == 502
        assert f"nothing listens at port {port} of the task" in json.loads(body)["error"]["error"]


def test_agents_get_the_relay_address_while_they_run_proxied_tasks(api: Api) -> None:
    def told(agent: PlayedAgent) -> str:
        return str(agent.told.get("relay") or "")

    api.ctx.host.carries_traffic = False
    with proxied(api, [{"proxy_port": 9}]) as task:
        task.agent.poll()
        assert told(task.agent) == ""  # a host that does not carry traffic
        api.ctx.host.carries_traffic = True
        task.agent.poll()
        assert told(task.agent) == "/agents/v1/relay"
        api.ctx.host.relay_url = "https://relay.example"
        task.agent.poll()
        assert told(task.agent) == "https://relay.example/agents/v1/relay"
        # After an upgrade, agents are connected to a relay that gets no more requests.
        api.ctx.host.revision = "api-00002"
        task.agent.poll()
        assert told(task.agent) == "https://relay.example/agents/v1/relay?for=api-00002"
        answer = task.owner.ask("GET", f"/proxy/{task.task}/page", query={"x": ["1"]})
        location = f"https://relay.example/proxy/{task.task}/page?x=1"
        assert (answer.status, answer.headers["location"]) == (307, location)
        other = PlayedAgent(api, "without-such-tasks")
        other.join()
        other.poll()
        assert told(other) == ""


def test_traffic_time_is_stored_with_the_task(api: Api, web: int) -> None:
    proxied_at = text("SELECT proxied_at FROM tasks WHERE id = :id")
    with proxied(api, [{"proxy_port": web}]) as task:
        assert api.ctx.db.read(proxied_at, {"id": task.task})[0].proxied_at is None
        before = api.ctx.now()
        task.ask("GET", task.path(web))
    # The server has ended and has recorded its requests.
    at = api.ctx.db.read(proxied_at, {"id": task.task})[0].proxied_at
    assert at is not None
    assert at >= before
