"""Measure the start of the image's program until its first answer: `python -m bench.container`.

The database is running already. A person waits for this time when Cloud Run starts an instance, in addition to Cloud
Run's own time.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from det_controlplane.db.engine.migrate import migrate

from tests.support.ports import free_port
from tests.support.postgres import throwaway_server

STARTS = 7
_PATIENCE_S = 60.0


def first_answer_s(environment: dict[str, str]) -> float:
    port, start = free_port(), time.perf_counter()
    command = [sys.executable, "-m", "det_controlplane.entry.container.main"]
    variables = {**environment, "PORT": str(port)}
    with subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL) as process:
        try:
            while not answers(f"http://127.0.0.1:{port}/info"):
                if time.perf_counter() - start > _PATIENCE_S or process.poll() is not None:
                    raise SystemExit("the program does not answer")
                time.sleep(0.005)
            return time.perf_counter() - start
        finally:
            process.terminate()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        throwaway_server() as server,
        server.database() as url,
    ):
        migrate(url)
        environment = {
            **os.environ,
            "DET_ROLE": "api",
            "DET_DB_URL": url,
            "DET_OBJECTS": str(Path(name) / "objects"),
            "DET_OBJECTS_SECRET": "secret",
            "DET_INITIAL_USER_PASSWORD": "Password1",
            "HOST": "127.0.0.1",
        }
        best = min(first_answer_s(environment) for _ in range(STARTS))
    line = {"name": "container_first_answer", "value": round(best, 2), "unit": "s"}
    print(json.dumps({**line, "floor": 1.5, "better": "lower", "peer": None}), flush=True)


if __name__ == "__main__":
    main()
