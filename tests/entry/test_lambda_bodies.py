"""Bodies around the 6 MB limit of Lambda's events: uploads beside the API, and refusals."""

import base64
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from det_agent.spool import MAX_BATCH_BYTES
from determined.common import context_upload
from determined.common.context import collect
from determined.common.context_download import code_of
from determined.common.http import APIError, Session

from tests.support.lambda_calls import CONFIG, join_agent, sign_in
from tests.support.lambda_events import answered, function_url_event
from tests.support.lambda_front import function_url
from tests.support.lambda_runtime import MAX_PAYLOAD, LambdaRuntime
from tests.support.moto import moto_server

pytestmark = pytest.mark.slow

MIB = 2**20


@dataclass
class Cluster:
    """A control plane on Lambda behind its Function URL, with a bucket, and a user's session."""

    api: LambdaRuntime
    session: Session

    def create(self, folder: Path) -> int:
        fields = context_upload.send(self.session, collect(str(folder)))
        body = {"config": CONFIG, "activate": True, **fields}
        return int(self.session.post("/api/v1/experiments", body)["experiment"]["id"])

    def task(self, experiment: int) -> str:
        trials = self.session.get(f"/api/v1/experiments/{experiment}/trials")["trials"]
        return str(trials[0]["taskId"])


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with moto_server() as url:
        place = {"LocationConstraint": "us-west-2"}
        client = boto3.client("s3", endpoint_url=url, region_name="us-west-2")
        client.create_bucket(Bucket="data", CreateBucketConfiguration=place)
        yield url


@pytest.fixture
def cluster(task_root: Path, environment: dict[str, str], bucket: str) -> Iterator[Cluster]:
    variables = {
        **environment, "DET_OBJECTS": "s3://data/contexts", "AWS_ENDPOINT_URL_S3": bucket,
        "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
    }  # fmt: skip
    with (
        LambdaRuntime(task_root, "app.app", variables) as api,
        function_url(lambda http: answered(api.invoke(function_url_event(http)))) as url,
    ):
        session = Session(url, {"Authorization": f"Bearer {sign_in(api)}"}, retries=0)
        yield Cluster(api, session)
        session.close()


def code(folder: Path, size: int, files: int = 1) -> Path:
    """Write code that does not get smaller when it is packed."""
    folder.mkdir()
    for number in range(files):
        (folder / f"data-{number:04}.bin").write_bytes(os.urandom(size // files))
    return folder


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return tar.getnames()


def test_large_code_is_uploaded_to_and_downloaded_from_the_bucket(
    cluster: Cluster, tmp_path: Path
) -> None:
    experiment = cluster.create(code(tmp_path / "code", 30 * MIB))
    path = f"/api/v1/experiments/{experiment}/model_def"
    assert names(code_of(cluster.session, path)) == ["data-0000.bin"]
    of_task = f"/api/v1/tasks/{cluster.task(experiment)}/context_directory"
    assert names(code_of(cluster.session, of_task)) == ["data-0000.bin"]

    with pytest.raises(APIError, match=r"4\d\.\d MiB and this host carries 6: ask for the address"):
        cluster.session.get(path)
    status, headers, _ = cluster.session.request_bytes(
        "GET", f"/experiments/{experiment}/model_def"
    )
    assert (status, headers["location"][:7]) == (302, "http://")


@pytest.mark.parametrize(("size", "files"), [(3_900_000, 1), (2_500_000, 6000)])
def test_inline_code_fits_into_an_event(
    cluster: Cluster, tmp_path: Path, size: int, files: int
) -> None:
    folder = code(tmp_path / "code", size, files)
    assert "modelDefinition" in context_upload.send(cluster.session, collect(str(folder)))
    experiment = cluster.create(folder)
    model_definition = cluster.session.get(f"/api/v1/experiments/{experiment}/model_def")
    assert len(names(base64.b64decode(model_definition["b64Tgz"]))) == files


def test_request_rejected_by_the_gateway_reports_the_limit(
    cluster: Cluster, tmp_path: Path
) -> None:
    inline = collect(str(code(tmp_path / "code", 5 * MIB))).inline()
    body = {"config": CONFIG, "modelDefinition": inline}
    assert len(json.dumps(body)) > MAX_PAYLOAD
    with pytest.raises(APIError, match=r"larger than the host .* takes \(6 MB on AWS Lambda") as e:
        cluster.session.post("/api/v1/experiments", body)
    assert e.value.status == 413


def test_full_batch_of_logs_fits_into_an_event(cluster: Cluster, tmp_path: Path) -> None:
    experiment = cluster.create(code(tmp_path / "code", 10))
    noise = base64.b64encode(os.urandom(MAX_BATCH_BYTES * 3 // 4)).decode()
    line = {
        "task_id": cluster.task(experiment), "log": noise[: MAX_BATCH_BYTES - 300],
        "timestamp": "2026-01-01T00:00:00Z", "level": "INFO", "stdtype": "stdout",
    }  # fmt: skip
    body = {"batch_id": "7b2c1a52-9d1f-4f6e-8a53-0a3f4b0c8d11", "matched": True, "logs": [line]}
    headers = {
        "Authorization": f"Bearer {join_agent(cluster.api)}", "Content-Type": "application/json",
        "Content-Encoding": "gzip",
    }  # fmt: skip
    compressed: Any = gzip.compress(json.dumps(body).encode())
    cluster.session.post("/agents/v1/logs", compressed, headers=headers)


def test_report_above_the_limit_is_rejected_with_a_hint(cluster: Cluster) -> None:
    def report(count: int) -> APIError:
        values = {f"loss-of-layer-{number}": number / 3 for number in range(count)}
        metrics = {"trialId": 9, "stepsCompleted": 1, "metrics": {"avgMetrics": values}}
        with pytest.raises(APIError) as answer:
            cluster.session.post("/api/v1/trials/9/metrics", {"metrics": metrics})
        return answer.value

    assert report(100_000).status == 400, "the API must receive it and report the missing trial"
    error = report(200_000)
    assert (error.status, "send less, or in parts" in str(error)) == (413, True)
