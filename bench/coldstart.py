"""Measure a function's start until the first answer, a user's new experiment: `python -m bench.coldstart`.

Only CPU time counts, because Lambda gives a function a share of a processor.
"""

import json
import os
import tempfile
import zipfile
from pathlib import Path

from det_controlplane.db.engine.migrate import migrate
from det_controlplane.entry.aws import packaging

from tests.support.lambda_calls import create_experiment, sign_in
from tests.support.lambda_events import Http, answered, http_api_event
from tests.support.lambda_runtime import LambdaRuntime
from tests.support.postgres import throwaway_server

STARTS = 9


def experiment(task: Path, environment: dict[str, str]) -> Http:
    """Create an experiment, and return the request for it."""
    with LambdaRuntime(task, "app.app", environment) as api:
        token = sign_in(api)
        path = f"/api/v1/experiments/{create_experiment(api, token)}"
    return Http("GET", path, headers=(("Authorization", f"Bearer {token}"),))


def start_cpu_ms(task: Path, environment: dict[str, str], request: Http) -> float:
    with LambdaRuntime(task, "app.app", environment) as runtime:
        status, _, _ = answered(runtime.invoke(http_api_event(request)))
        assert status == 200
        assert runtime.process is not None
        runtime.process.kill()
        _, code, usage = os.wait4(runtime.process.pid, 0)
        runtime.process.returncode = code
    return (usage.ru_utime + usage.ru_stime) * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as name, throwaway_server() as server:
        folder = Path(name)
        package = packaging.build(folder / "out")
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder / "task")
        with server.database() as url:
            migrate(url)
            environment = {
                "DET_DB_URL": url,
                "DET_OBJECTS": str(folder / "objects"),
                "DET_OBJECTS_SECRET": "secret",
                "DET_INITIAL_USER_PASSWORD": "Password1",
                "DET_CLUSTER_CONFIG": '{"checkpoint_storage": {"type": "s3", "bucket": "checkpoints"}}',
            }
            request = experiment(folder / "task", environment)
            best = min(start_cpu_ms(folder / "task", environment, request) for _ in range(STARTS))
        size = package.stat().st_size / 1024**2
    line = {"name": "lambda_cold_start_cpu", "value": round(best, 1), "unit": "ms"}
    print(json.dumps({**line, "floor": 500, "better": "lower", "peer": 1290}), flush=True)
    line = {"name": "lambda_zip_size", "value": round(size, 1), "unit": "MiB"}
    print(json.dumps({**line, "floor": 50, "better": "lower", "peer": None}), flush=True)


if __name__ == "__main__":
    main()
