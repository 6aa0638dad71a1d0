"""A control plane for agents under test: it speaks the agent protocol, and can fail in every way a real one can."""

import gzip
import json
import socket
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")
Answer = tuple[int, Any]
JOIN_TOKEN = "bootstrap-secret"


class FakeControlPlane:
    """`want` adds desired containers. `reported`, `logs` and `forwarded` contain the data of agents."""

    def __init__(self, may_wait_s: float = 20.0, next_poll_s: float = 0.2) -> None:
        self.may_wait_s = may_wait_s
        self.next_poll_s = next_poll_s
        self.changed = threading.Condition()
        self.desired: dict[str, dict[str, Any]] = {}
        self.reported: dict[str, dict[str, Any]] = {}
        self.history: dict[str, list[str]] = {}
        self.joins: list[dict[str, Any]] = []
        self.signals: list[dict[str, Any]] = []
        self.out_of_service = ""
        self.batches: dict[str, list[dict[str, Any]]] = {}
        self.matched: set[bool] = set()
        self.forwarded: list[tuple[str, str, dict[str, str], bytes]] = []
        self.together: list[int] = []  # how many reports each request of several had
        self.refuses_together = 0  # the status that all such requests get, if any
        self.callers: set[tuple[str, int]] = set()
        self.polls = 0
        self.gone = False
        self.acknowledging = True
        self.lost_answers = 0
        self.lost_forwarded_answers = 0
        self.outage = False
        self.answer_to: Callable[[str, str, bytes], Answer] = lambda method, path, body: (
            200,
            {"path": path},
        )
        self._token = ""
        self._incarnation = ""
        self._newest = 0  # number of a poll
        self._server = _Server(("127.0.0.1", 0), type("Bound", (_Handler,), {"plane": self}))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        with self.changed:
            self.outage = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def want(self, spec: dict[str, Any]) -> None:
        self.change(
            lambda: self.desired.update(
                {spec["container_id"]: {"spec": spec, "desired": "running"}}
            )
        )

    def run(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Want a container and wait until it runs. Return the agent's report about it."""
        self.want(spec)
        return self.until_state(spec["container_id"], "running")

    def kill(self, container_id: str) -> None:
        self.change(lambda: self.desired[container_id].update(desired="killed"))

    def preempt(self, container_id: str) -> None:
        self.change(lambda: self.desired[container_id].update(preempt=True))

    def unlist(self, container_id: str) -> None:
        self.change(lambda: self.desired.pop(container_id))

    def change(self, mutate: Callable[[], object]) -> None:
        with self.changed:
            mutate()
            self.changed.notify_all()

    def until(self, condition: Callable[[], T | None], timeout_s: float = 60.0) -> T:
        """Wait until `found` returns something true, looked at whenever an agent said something."""
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while not (result := condition()):
                left_s = deadline - time.monotonic()
                assert left_s > 0, (
                    f"not within {timeout_s} s; reported: {self.reported}, logs: {self.logs()}"
                )
                self.changed.wait(min(left_s, 0.5))
            return result

    def _in_state(self, container_id: str, state: str) -> dict[str, Any] | None:
        report = self.reported.get(container_id)
        return report if report and report["state"] == state else None

    def until_state(self, container_id: str, state: str, timeout_s: float = 60.0) -> dict[str, Any]:
        return self.until(lambda: self._in_state(container_id, state), timeout_s)

    def logs(self) -> list[dict[str, Any]]:
        return [line for batch in self.batches.values() for line in batch]

    def texts(self, source: str | None = None) -> list[str]:
        return [line["log"] for line in self.logs() if source in (None, line.get("source"))]

    def admit(self) -> str:
        """Return the token of an agent, as if it had joined."""
        self._token = uuid.uuid4().hex
        return self._token

    def forget_agent(self) -> None:
        """Forget an agent as if its row was deleted: its token is unknown."""
        with self.changed:
            self._token = ""

    def join(self, body: dict[str, Any]) -> Answer:
        proof = body["proof"]
        # Proofs of machines are verified elsewhere.
        if proof["kind"] != "aws_sts" and proof != {"kind": "bootstrap_token", "token": JOIN_TOKEN}:
            return 401, {"error": {"code": 16, "reason": "Unauthenticated", "error": "bad proof"}}
        if self.joins and self.joins[-1]["agent_key"] != body["agent_key"]:
            return 409, {
                "error": {"code": 6, "reason": "AlreadyExists", "error": "the identity is taken"}
            }
        self.joins.append(body)
        self._token, self._incarnation = uuid.uuid4().hex, body["incarnation"]
        self._newest = 0
        self.changed.notify_all()
        return 200, {
            "agent_token": self._token,
            "cluster_id": "cluster-1",
            "master_id": "master-1",
            "lease_s": 30,
            "next_poll_s": self.next_poll_s,
            "may_wait_s": self.may_wait_s,
        }

    def poll(self, body: dict[str, Any]) -> Answer:
        if body["incarnation"] != self._incarnation:
            return 409, {"error": {"code": 6, "reason": "Aborted", "error": "replaced"}}
        self.polls += 1
        if body.get("gone"):
            self.gone, self._token = True, ""
        if body["seq"] > self._newest:  # two may be under way
            self._newest = body["seq"]
            self.signals = body["signals"]
            self.out_of_service = body["out_of_service"]
        for report in body["containers"]:
            self._take_report(report)
        self.changed.notify_all()
        answer = self._answer(body)
        deadline = time.monotonic() + body["wait_s"]
        while (
            body["seen"] == answer["version"]
            and not answer["forget"]
            and not self._has_specs(answer)
        ):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or self.outage:
                break
            self.changed.wait(left_s)
            answer = self._answer(body)
        return 200, answer

    def _take_report(self, report: dict[str, Any]) -> None:
        order = ["assigned", "pulling", "starting", "running", "terminated"]
        states = self.history.setdefault(f"{report['id']}@{report['epoch']}", [])
        if states and order.index(states[-1]) > order.index(report["state"]):
            return
        if not states or states[-1] != report["state"]:
            states.append(report["state"])
        self.reported[report["id"]] = report

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        container_ids = {r["id"] for r in body["containers"]}
        ended_containers = {r["id"]: r for r in body["containers"] if r["state"] == "terminated"}
        containers = [
            {
                "id": container_id,
                "allocation_id": entry["spec"]["allocation_id"],
                "epoch": entry["spec"]["epoch"],
                "desired": entry["desired"],
                "preempt": entry.get("preempt", False),
                "spec": None if container_id in container_ids else entry["spec"],
            }
            for container_id, entry in self.desired.items()
            if not self._is_over(container_id, entry)
        ]
        forget = list(ended_containers) if self.acknowledging else []
        version = json.dumps(
            [[c["id"], c["epoch"], c["desired"], c["preempt"]] for c in containers]
        )
        return {
            "containers": containers,
            "forget": forget,
            "version": version,
            "next_poll_s": self.next_poll_s,
        }

    def _is_over(self, container_id: str, entry: dict[str, Any]) -> bool:
        states = self.history.get(f"{container_id}@{entry['spec']['epoch']}", [])
        return self.acknowledging and "terminated" in states

    @staticmethod
    def _has_specs(answer: dict[str, Any]) -> bool:
        return any(c["spec"] for c in answer["containers"])

    def store_logs(self, body: dict[str, Any]) -> Answer:
        self.matched.add(body["matched"])
        if self.batches.setdefault(body["batch_id"], body["logs"]) != body["logs"]:
            return 500, {"message": "one batch id with different lines"}
        self.changed.notify_all()
        return 200, {}

    def route(self, handler: "_Handler", body: bytes) -> Answer | None:
        """Answer a request; None loses the answer, after everything was recorded."""
        path = urlsplit(handler.path).path
        with self.changed:
            if self.outage:
                return 503, {}
            if not path.startswith("/agents/v1/"):
                return self._forwarded(handler, body)
            message = json.loads(
                gzip.decompress(body) if handler.headers["Content-Encoding"] == "gzip" else body
            )
            if (
                path != "/agents/v1/join"
                and handler.headers["Authorization"] != f"Bearer {self._token}"
            ):
                return 401, {
                    "error": {"code": 16, "reason": "Unauthenticated", "error": "unknown token"}
                }
            if path.endswith("/reports"):
                return self._delivered(message["reports"])
            routes = {"join": self.join, "poll": self.poll, "logs": self.store_logs}
            answer = routes[path.rpartition("/")[2]](message)
            if self.lost_answers and not path.endswith("join"):
                self.lost_answers -= 1
                return None
            return (503, {}) if self.outage else answer

    def _delivered(self, reports: list[dict[str, Any]]) -> Answer | None:
        """Accept metrics of several trials as if they came alone. Reports without 200 must come alone."""
        self.together.append(len(reports))
        if self.refuses_together:
            return self.refuses_together, {}
        outcomes = []
        for report in reports:
            path, body = f"/api/v1/trials/{report['trial_id']}/metrics", report["report"].encode()
            is_stored = self.answer_to("POST", path, body)[0] == 200
            if is_stored:
                headers = {"Idempotency-Key": report["key"], "Authorization": report["token"]}
                self.forwarded.append(("POST", path, headers, body))
            outcomes.append("stored" if is_stored else "alone")
        self.changed.notify_all()
        if self.lost_forwarded_answers:
            self.lost_forwarded_answers -= 1
            return None
        return 200, {"outcomes": outcomes}

    def _forwarded(self, handler: "_Handler", body: bytes) -> Answer | None:
        self.forwarded.append((handler.command, handler.path, dict(handler.headers.items()), body))
        self.callers.add(handler.client_address)
        self.changed.notify_all()
        answer = self.answer_to(handler.command, handler.path, body)
        if self.lost_forwarded_answers:
            self.lost_forwarded_answers -= 1
            return None
        return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over an agent that was killed in the middle of a request; a bug of this fake is an error."""
        if not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc()


class _Handler(BaseHTTPRequestHandler):
    plane: FakeControlPlane
    connection: socket.socket
    client_address: tuple[str, int]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionError("the agent was killed in the middle of its request")
        answer = self.plane.route(self, body)
        if answer is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, content = answer
        payload = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Do nothing: tests assert on recorded requests."""
