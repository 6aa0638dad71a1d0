"""Operators are warned of machines that cannot write checkpoints before any is rented."""

from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.cluster_check import credential_warnings

AWS = {"type": "aws", "region": "us-east-1", "instance_type": "g5.xlarge"}
GCP = {"type": "gcp", "region": "us-central1", "instance_type": "g2-standard-8"}
S3 = {"type": "s3", "bucket": "checkpoints"}
GCS = {"type": "gcs", "bucket": "checkpoints"}
ACCOUNT = {
    "type": "external_account", "audience": "//iam.googleapis.com/x", "subject_token_type": "aws4_request",
    "token_url": "https://sts.googleapis.com/v1/token",
    "service_account_impersonation_url": "https://iamcredentials.googleapis.com/v1/x",
}  # fmt: skip
KEYS = {"access_key": "AKIA", "secret_key": "secret"}


def told(storage: dict[str, Any], *offers: dict[str, Any], **more: Any) -> list[str]:
    pool = {"pool_name": "default", "offers": list(offers)}
    config = {"checkpoint_storage": storage, "resource_pools": [pool], **more}
    return list(credential_warnings(load_cluster(config)))


@pytest.mark.parametrize(
    ("storage", "offers", "where", "remedy"),
    [
        (S3, [AWS, GCP], "pool default on Google Cloud", "access_key and secret_key"),
        (S3, [GCP], "pool default on Google Cloud", "access_key and secret_key"),
        (GCS, [AWS, GCP], "pool default on AWS", "google_credentials"),
        (S3, [GCP], "pool default on Google Cloud", "aws_role_arn"),
    ],
)
def test_pool_on_another_cloud_than_the_bucket_causes_a_warning(
    storage: dict[str, Any], offers: list[dict[str, Any]], where: str, remedy: str
) -> None:
    (warning,) = told(storage, *offers)
    assert where in warning
    assert remedy in warning


@pytest.mark.parametrize(
    ("storage", "offers"),
    [
        (S3, [AWS]),
        (GCS, [GCP]),
        (S3 | KEYS, [AWS, GCP]),
        (S3, [AWS, GCP | {"aws_role_arn": "arn:aws:iam::123456789012:role/machine"}]),
        (GCS, [AWS | {"google_credentials": ACCOUNT}, GCP]),
        ({"type": "shared_fs", "host_path": "/checkpoints"}, [AWS, GCP]),
    ],
)
def test_pool_with_access_to_its_bucket_causes_no_warning(
    storage: dict[str, Any], offers: list[dict[str, Any]]
) -> None:
    assert told(storage, *offers) == []


@pytest.mark.parametrize("form", [list, lambda given: {"cuda": list(given), "cpu": []}])
def test_credentials_in_the_variables_of_all_tasks_are_enough(form: Any) -> None:
    variables = form(["AWS_ACCESS_KEY_ID=AKIA", "AWS_SECRET_ACCESS_KEY=secret"])
    defaults = {"environment_variables": variables}
    assert told(S3, AWS, GCP, task_container_defaults=defaults) == []


def test_warning_names_the_pool() -> None:
    pools = [
        {"pool_name": "here", "offers": [AWS]},
        {"pool_name": "there", "offers": [GCP]},
        {"pool_name": "own"},
    ]
    manager = {"default_compute_resource_pool": "here", "default_aux_resource_pool": "here"}
    config = {"checkpoint_storage": S3, "resource_pools": pools, "resource_manager": manager}
    (warning,) = credential_warnings(load_cluster(config))
    assert "pool there on Google Cloud" in warning
