"""The content of a snapshot of the API's function, from which SnapStart starts all others."""

import json
import subprocess
import sys

import pytest
from det_controlplane.api import routes

SHOW = """
import json, sys
import det_controlplane.entry.aws.chalice_app as functions
print(json.dumps([sorted(sys.modules), functions.built.cache_info().currsize]))
"""


@pytest.fixture
def environment() -> dict[str, str]:
    # No server listens there, so a request to the database would fail.
    return {"DET_DB_URL": "postgresql://u:p@127.0.0.1:1/x", "DET_OBJECTS": "s3://bucket/contexts"}


def loaded(environment: dict[str, str]) -> set[str]:
    """Return the modules of the API that a function has when it is initialised."""
    result = subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    modules, applications = json.loads(result.stdout)
    assert applications == 0, "an application would carry connections into the snapshot"
    return {name.removeprefix("det_controlplane.api.") for name in modules}


def test_snapshot_contains_every_route(environment: dict[str, str]) -> None:
    modules = loaded({**environment, "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"})
    assert {name for name in routes.module_names() if name not in modules} == set()


def test_snapshot_contains_opentelemetry_if_telemetry_is_on(environment: dict[str, str]) -> None:
    kind = {"AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}
    telemetry = {"telemetry": {"otel_enabled": True, "otel_endpoint": "http://127.0.0.1:1"}}
    on = {"DET_CLUSTER_CONFIG": json.dumps(telemetry)}
    assert "opentelemetry.sdk.trace" in loaded({**environment, **kind, **on})
    assert "opentelemetry" not in loaded({**environment, **kind})


def test_function_without_a_snapshot_loads_modules_on_demand(
    environment: dict[str, str],
) -> None:
    modules = loaded({**environment, "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand"})
    assert {"experiments", "models", "webhooks"} & modules == set()
