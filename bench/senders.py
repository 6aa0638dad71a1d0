"""Send prepared requests over several connections at once, as a process of its own: `python -m bench.senders PORT`.

Reads one JSON line for each round from stdin and answers with one: what to send is prepared before time counts.
"""

import json
import socket
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

METRICS, LINES = "metrics", "lines"


@dataclass(frozen=True)
class Round:
    """Describes what each connection sends: reports of its own trial, or lines of its own task."""

    kind: str
    subjects: list[str]  # trials or tasks, one a connection
    requests: int  # by each connection
    size: int  # metrics a report, lines a batch
    first: int  # step or line of the first request
    per_second: float = 0.0  # of each connection; 0: as fast as answers come


def body_of(asked: Round, subject: str, number: int) -> bytes:
    if asked.kind == LINES:
        text = f"step {number:>9}: loss=0.12345678 accuracy=0.87654321 samples/s=12345.6 lr=3e-4 grad_norm=1.2345"
        line = {"taskId": subject, "log": text, "level": "LOG_LEVEL_INFO", "rankId": 0}
        return json.dumps({"logs": [line] * asked.size}).encode()
    values = {f"metric_{n}": n + 0.5 for n in range(asked.size)}
    report = {"trialRunId": 1, "stepsCompleted": number, "metrics": {"avgMetrics": values}}
    return json.dumps({"group": "training", "metrics": report}).encode()


def raw_request(asked: Round, subject: str, number: int, token: str) -> bytes:
    path = f"/api/v1/trials/{subject}/metrics" if asked.kind == METRICS else "/api/v1/task/logs"
    body = body_of(asked, subject, number)
    headers = f"Host: bench\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}"
    return f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n".encode() + body


def receive(connection: socket.socket) -> bytes:
    """Read a small answer with its length told, and return its first line."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += connection.recv(65536)
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head.split(b"\r\n")[0] + (b"" if b" 200 " in head else body)


class Sender(threading.Thread):
    def __init__(self, port: int, requests: list[bytes], per_second: float) -> None:
        super().__init__()
        self.took_s: list[float] = []
        self.wrong = ""
        self._requests, self._pause_s = requests, 1 / per_second if per_second else 0.0
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        due = time.perf_counter()
        for request in self._requests:
            time.sleep(max(0.0, due - time.perf_counter()))
            began = time.perf_counter()
            self._connection.sendall(request)
            status = receive(self._connection)
            # From when it was due: a queue before the server counts too.
            self.took_s.append(time.perf_counter() - (due if self._pause_s else began))
            due += self._pause_s
            if b" 200 " not in status:
                self.wrong = status.decode()
        self._connection.close()


def send(port: int, token: str, asked: Round) -> dict[str, Any]:
    numbers = range(asked.first, asked.first + asked.requests)
    prepared = [[raw_request(asked, s, n, token) for n in numbers] for s in asked.subjects]
    senders = [Sender(port, requests, asked.per_second) for requests in prepared]
    began = time.perf_counter()
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    wall_s = time.perf_counter() - began
    took = sorted(t for sender in senders for t in sender.took_s)
    wrong = next((sender.wrong for sender in senders if sender.wrong), "")
    p50, p99 = (took[int(len(took) * share)] for share in (0.5, 0.99))
    return {"wall_s": wall_s, "p50_ms": p50 * 1000, "p99_ms": p99 * 1000, "wrong": wrong}


def line_of(asked: Round) -> str:
    return json.dumps(asdict(asked))


def main() -> None:
    port, token = int(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        print(json.dumps(send(port, token, Round(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
