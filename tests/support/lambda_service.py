"""AWS Lambda's Invoke API over functions under the real runtime client, for functions that start each other."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.lambda_runtime import LambdaRuntime


@dataclass
class LambdaService:
    """Functions by name. Asynchronous calls of one function run one after the other, as its concurrency of one says."""

    task_root: Path
    environment: dict[str, str]
    functions: Mapping[str, str]  # handlers by name
    started: list[str] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    _runtimes: dict[str, LambdaRuntime] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, name: str, payload: Any) -> None:
        """Call a function and do not wait for it."""
        self.started.append(name)
        thread = threading.Thread(target=self._run, args=(name, payload), daemon=True)
        self._threads.append(thread)
        thread.start()

    def call(self, name: str, payload: Any) -> Any:
        with self._locks[name]:
            return self._runtimes[name].invoke(payload)

    def runtime(self, name: str) -> LambdaRuntime:
        return self._runtimes[name]

    def settle(self) -> None:
        """Wait until all started functions have ended, including the ones that they started."""
        while self._threads:
            self._threads.pop().join(60)

    def _run(self, name: str, payload: Any) -> None:
        self.results.append((name, self.call(name, payload)))


@contextmanager
def lambda_service(
    task_root: Path, environment: Mapping[str, str], functions: Mapping[str, str]
) -> Iterator[LambdaService]:
    """Run every function in a process of its own; their environment says where this service is."""
    service = LambdaService(task_root, dict(environment), functions)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(service))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    service.environment |= {
        "AWS_ENDPOINT_URL_LAMBDA": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-west-2",
        "AWS_DEFAULT_REGION": "us-west-2",
    }  # fmt: skip
    with ExitStack() as stack:
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        for name, handler in functions.items():
            runtime = LambdaRuntime(task_root, handler, service.environment)
            service._runtimes[name] = stack.enter_context(runtime)
            service._locks[name] = threading.Lock()
        yield service
        service.settle()


def _handler(service: LambdaService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            name = self.path.split("/")[3]
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if name not in service.functions:
                return self._answer(404, {"Message": f"Function not found: {name}"})
            payload = json.loads(body or b"{}")
            if self.headers.get("X-Amz-Invocation-Type") == "Event":
                service.start(name, payload)
                return self._answer(202, None)
            return self._answer(200, service.call(name, payload))

        def _answer(self, status: int, value: Any) -> None:
            content = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
