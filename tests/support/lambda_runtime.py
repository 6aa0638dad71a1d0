"""AWS Lambda as seen by a function: the runtime API, one event at a time, and its limits."""

import http.server
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import awslambdaric

MAX_PAYLOAD = 6 * 1024 * 1024
_TIMEOUT_S = 30
_PATIENCE_S = 120
PROVIDED = (
    "awslambdaric",
    "runtime_client*",
    "simplejson",
    "snapshot_restore_py",
    "boto3",
    "botocore",
    "s3transfer",
    "jmespath",
    "urllib3",
    "dateutil",
    "six.py",
)


class FunctionFailed(Exception):
    """The function raised, answered too much, or did not start."""


class RequestTooLarge(Exception):
    """Lambda does not call the function: its event has more than 6 MB."""


@dataclass
class _Invocation:
    id: str
    event: bytes
    result: "queue.SimpleQueue[tuple[str, bytes]]" = field(default_factory=queue.SimpleQueue)


class LambdaRuntime:
    """A function in its own process under the real `awslambdaric`."""

    def __init__(self, task_root: Path, handler: str, environment: Mapping[str, str]) -> None:
        self._task_root = task_root
        self._handler = handler
        self._environment = dict(environment)
        self._waiting: queue.SimpleQueue[_Invocation] = queue.SimpleQueue()
        self._running: dict[str, _Invocation] = {}
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self._provided = tempfile.TemporaryDirectory()
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "LambdaRuntime":
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        link_provided(Path(self._provided.name))
        self.process = self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self._server.shutdown()
        self._server.server_close()
        self._provided.cleanup()

    def invoke(self, event: Mapping[str, Any], timeout_s: float = _PATIENCE_S) -> Any:
        invocation = _Invocation(str(uuid.uuid4()), json.dumps(event).encode())
        if len(invocation.event) > MAX_PAYLOAD:
            raise RequestTooLarge(len(invocation.event))
        self._running[invocation.id] = invocation
        self._waiting.put(invocation)
        try:
            kind, body = invocation.result.get(timeout=timeout_s)
        except queue.Empty:
            raise FunctionFailed(f"no answer within {timeout_s} s") from None
        finally:
            del self._running[invocation.id]
        if kind != "response":
            raise FunctionFailed(body.decode("utf-8", "replace"))
        if len(body) > MAX_PAYLOAD:
            raise FunctionFailed(f"Function.ResponseSizeTooLarge: {len(body)} bytes")
        return json.loads(body)

    def next_invocation(self) -> _Invocation:
        return self._waiting.get()

    def finish(self, request_id: str, kind: str, body: bytes) -> None:
        invocation = self._running.get(request_id)
        if invocation is not None:
            invocation.result.put((kind, body))

    def fail_start(self, body: bytes) -> None:
        """Fail at the start, so that callers do not wait."""
        for invocation in self._running.values():
            invocation.result.put(("error", body))

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "AWS_", "DET_"))},
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_port}",
            "AWS_LAMBDA_FUNCTION_NAME": "function",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
            "AWS_REGION": "us-west-2",
            "AWS_DEFAULT_REGION": "us-west-2",
            "LAMBDA_TASK_ROOT": str(self._task_root),
            # The task directory comes first, as on Lambda; with -S only what Lambda has follows.
            "PYTHONPATH": f"{self._task_root}{os.pathsep}{self._provided.name}",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self._environment,
        }
        command = [sys.executable, "-S", "-m", "awslambdaric", self._handler]
        return subprocess.Popen(command, cwd=self._task_root, env=environment)


def link_provided(folder: Path) -> None:
    """Link what Lambda's own image has beside Python: its runtime client and the SDK."""
    site_packages = Path(awslambdaric.__file__).parents[1]
    for pattern in PROVIDED:
        for path in site_packages.glob(pattern):
            (folder / path.name).symlink_to(path)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a function that was killed while it waited for work, as functions are."""


def _handler_of(runtime: LambdaRuntime) -> type[http.server.BaseHTTPRequestHandler]:
    class RuntimeApi(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # one packet an answer

        def do_GET(self) -> None:
            invocation = runtime.next_invocation()
            deadline_ms = int((time.time() + _TIMEOUT_S) * 1000)
            headers = {
                "Lambda-Runtime-Aws-Request-Id": invocation.id,
                "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-west-2:1:function:f",
                "Content-Type": "application/json",
            }
            self._answer(200, headers, invocation.event)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = self.path.split("/")
            if parts[3] == "init":
                runtime.fail_start(body)
            else:
                runtime.finish(parts[4], parts[5], body)
            self._answer(202, {}, b"")

        def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    return RuntimeApi
