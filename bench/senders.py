"""Send prepared requests over several connections, as a separate process: `python -m bench.senders PORT`.

Reads one JSON line for each round from stdin, and answers with one. Requests are prepared before the measurement
starts. One thread serves all connections, because this process shares the processors with the measured programs.
"""

import json
import resource
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

METRICS, LINES = "metrics", "lines"


@dataclass(frozen=True)
class Round:
    """Requests of each connection: reports of its own trial, or lines of its own task."""

    kind: str
    subjects: list[str]  # trials or tasks, one for each connection
    requests: int  # by each connection
    size: int  # metrics of a report, lines of a batch
    first: int  # step or line of the first request
    per_second: float = 0.0  # of each connection; 0 sends as fast as answers arrive
    ways: list[tuple[int, str]] = field(
        default_factory=list
    )  # port and token of each connection, if they differ


def body_of(plan: Round, subject: str, number: int) -> bytes:
    if plan.kind == LINES:
        text = f"step {number:>9}: loss=0.12345678 accuracy=0.87654321 samples/s=12345.6 lr=3e-4 grad_norm=1.2345"
        line = {"taskId": subject, "log": text, "level": "LOG_LEVEL_INFO", "rankId": 0}
        return json.dumps({"logs": [line] * plan.size}).encode()
    values = {f"metric_{n}": n + 0.5 for n in range(plan.size)}
    report = {"trialRunId": 1, "stepsCompleted": number, "metrics": {"avgMetrics": values}}
    return json.dumps({"group": "training", "metrics": report}).encode()


def raw_request(plan: Round, subject: str, number: int, token: str) -> bytes:
    path = f"/api/v1/trials/{subject}/metrics" if plan.kind == METRICS else "/api/v1/task/logs"
    body = body_of(plan, subject, number)
    headers = f"Host: bench\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}"
    return f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode() + body


class Connection:
    """Sends its requests one after the other. Each is sent when it is due and the previous one is answered."""

    def __init__(self, port: int, requests: list[bytes], pause_s: float) -> None:
        self.left = requests[::-1]
        self.due = 0.0
        self.waits = False  # for an answer
        self.took_s: list[float] = []
        self.wrong = ""
        self._pause_s, self._began, self._got = pause_s, 0.0, b""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, now: float) -> None:
        # Measure from the time when it was due, so that a queue before the server counts too.
        self._began = self.due if self._pause_s else now
        self.due += self._pause_s
        self.waits = True
        self.socket.sendall(self.left.pop())

    def read(self) -> None:
        """Read a part of an answer, which contains its length."""
        self._got += self.socket.recv(65536)
        head, separator, body = self._got.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < length:
            return
        self.waits, self._got = False, b""
        self.took_s.append(time.perf_counter() - self._began)
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            self.wrong = (head + body).decode()


def exchange(connections: list[Connection]) -> None:
    with selectors.DefaultSelector() as selector:
        for each in connections:
            selector.register(each.socket, selectors.EVENT_READ, each)
        while any(each.waits or each.left for each in connections):
            now, pauses = time.perf_counter(), [1.0]
            for each in connections:
                if each.waits or not each.left:
                    continue
                if each.due <= now:
                    each.send(now)
                else:
                    pauses.append(each.due - now)
            for key, _ in selector.select(min(pauses)):
                key.data.read()


def send(port: int, token: str, plan: Round) -> dict[str, Any]:
    numbers = range(plan.first, plan.first + plan.requests)
    ways = plan.ways or [(port, token)] * len(plan.subjects)
    pause_s = 1 / plan.per_second if plan.per_second else 0.0
    connections = [
        Connection(to, [raw_request(plan, subject, n, by) for n in numbers], pause_s)
        for subject, (to, by) in zip(plan.subjects, ways, strict=True)
    ]
    start, spent_s = time.perf_counter(), _cpu_s()
    for number, each in enumerate(connections):
        # Trials do not report at the same time.
        each.due = start + pause_s * number / len(connections)
    exchange(connections)
    wall_s, spent_s = time.perf_counter() - start, _cpu_s() - spent_s
    for each in connections:
        each.socket.close()
    times = sorted(t for each in connections for t in each.took_s)
    wrong = next((each.wrong for each in connections if each.wrong), "")
    p50, p99 = (times[int(len(times) * share)] * 1000 for share in (0.5, 0.99))
    cpu_ms = spent_s * 1000 / len(times)
    return {"wall_s": wall_s, "p50_ms": p50, "p99_ms": p99, "cpu_ms": cpu_ms, "wrong": wrong}


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def line_of(plan: Round) -> str:
    return json.dumps(asdict(plan))


def main() -> None:
    port, token = int(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        print(json.dumps(send(port, token, Round(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
