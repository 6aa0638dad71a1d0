"""The imports of the API's function before its first answer."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SDKS = {"boto3", "botocore", "s3transfer", "google.auth", "google.cloud", "grpc", "opentelemetry"}
# A sign-in, an agent that joins, and an agent's poll. Nearly all requests are polls.
SERVE = """
import json, sys
from types import SimpleNamespace
from det_controlplane.entry.aws.chalice_app import app
from tests.support.lambda_calls import call, join_agent, poll, sign_in

function = SimpleNamespace(get_remaining_time_in_millis=lambda: 30_000)
api = SimpleNamespace(invoke=lambda event: app(event, function))
call(api, "GET", "/api/v1/experiments", sign_in(api))
poll(api, join_agent(api))
print(json.dumps(sorted(sys.modules)))
"""
POOLS = [
    {"pool_name": "default", "provider": {"type": "aws", "region": "us-west-2"}},
    {"pool_name": "google", "provider": {"type": "gcp", "project": "p", "zone": "us-west1-b"}},
]


def test_api_requests_import_neither_cloud_sdks_nor_opentelemetry(
    environment: Mapping[str, str],
) -> None:
    config = {**json.loads(environment["DET_CLUSTER_CONFIG"]), "resource_pools": POOLS}
    variables = {"DET_OBJECTS": "s3://bucket/contexts", "DET_CLUSTER_CONFIG": json.dumps(config)}
    result = subprocess.run(
        [sys.executable, "-c", SERVE], env={**os.environ, **environment, **variables}, cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert SDKS & set(json.loads(result.stdout)) == set()
