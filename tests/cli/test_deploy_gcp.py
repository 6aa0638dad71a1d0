"""`det deploy gcp` with valid and invalid input, with fakes for Terraform and Google Cloud."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from det_cli.deployment import image

from tests.cli.conftest import Det
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_google import built_digest
from tests.support.fake_terraform import FakeTerraform, error_event
from tests.support.google_project import DATA, MADE, STATES, Project, cause, outputs, state


def test_up_builds_the_image_and_creates_a_healthy_cluster(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.buckets[DATA] = {}  # the first apply creates it
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up()
    assert result.code == 0, result.err
    assert f"The cluster answers at {cluster.url}" in result.out
    assert f"in a browser: {cluster.url}/det" in result.out
    assert "until you change it: Secret123" in result.out
    first, second = terraform.calls("apply")
    assert {"-target=module.images", "-target=module.storage"} <= set(first["words"])
    assert second["variables"]["image"] == (
        f"us-west1-docker.pkg.dev/acme/det-lab/controlplane@{built_digest(1)}"
    )
    (build,) = project.google.builds
    assert build["serviceAccount"].endswith("/det-lab-build@acme.iam.gserviceaccount.com")
    settings = project.google.bucket_settings[STATES]
    assert settings["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    assert settings["versioning"] == {"enabled": True}
    (init,) = terraform.calls("init")
    assert f"-backend-config=bucket={STATES}" in init["words"]
    assert "-backend-config=prefix=lab" in init["words"]


def test_the_services_get_a_valid_configuration(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up(
        "--image", "img", "--zone", "us-west1-b", "--spot", "--max-dynamic-agents", "2"
    )
    assert result.code == 0, result.err
    (apply,) = terraform.calls("apply")
    config = yaml.safe_load(apply["variables"]["cluster_config"])
    compute, aux = config["resource_pools"]
    assert compute["provider"] == {
        "type": "gcp", "project": "acme", "region": "us-west1", "zone": "us-west1-b", "spot": True, "max_instances": 2,
        "instance_type": {"machine_type": "n1-standard-8", "gpu_type": "nvidia-tesla-t4", "gpu_num": 1},
        "boot_disk_source_image": "projects/ubuntu-os-accelerator-images/global/images/family/"
        "ubuntu-accelerator-2204-amd64-with-nvidia-580",
        "min_instances": 0, "max_idle_agent_period": "10m", "max_agent_starting_period": "20m",
    }  # fmt: skip
    assert aux["provider"]["instance_type"] == {"machine_type": "n1-standard-4", "gpu_num": 0}
    assert config["checkpoint_storage"] == {"type": "gcs", "bucket": DATA}
    assert project.google.builds == []


def test_reuses_the_options_of_the_previous_run(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    first = (
        "--spot",
        "--gpu-num",
        "2",
        "--var",
        "log_retention_days=1",
        "--var",
        "api_instances=2",
    )
    assert project.up("--image", "img", *first).code == 0
    result = project.up("--image", "img", "--var", "api_instances=3", "--max-dynamic-agents", "2")
    assert (
        "Reusing options of the previous run: --spot, --gpu-num, --var log_retention_days=1 (--forget-options"
        in result.err
    )
    fresh = project.up("--image", "img", "--forget-options")
    assert "Reusing options" not in fresh.err
    _, second, third = (call["variables"] for call in terraform.calls("apply"))
    assert (second["log_retention_days"], second["api_instances"]) == (1, 3)
    compute = yaml.safe_load(second["cluster_config"])["resource_pools"][0]["provider"]
    assert (compute["spot"], compute["instance_type"]["gpu_num"]) == (True, 2)
    assert compute["max_instances"] == 2
    assert "log_retention_days" not in third
    assert yaml.safe_load(third["cluster_config"])["resource_pools"][0]["provider"]["spot"] is False


def test_does_not_build_an_existing_image_again(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.buckets[DATA] = {}
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    assert project.up().code == 0
    assert project.up().code == 0
    assert len(project.google.builds) == 1


def test_the_image_contains_this_installation(tmp_path: Path) -> None:
    packed_archive = image.context()
    assert packed_archive == image.context(), "the same sources must produce the same image"
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed_archive))) as archive:
        names = archive.getnames()
        wheel = next(name for name in names if name.endswith(".whl"))
        content = archive.extractfile(wheel)
        assert content is not None
        (tmp_path / Path(wheel).name).write_bytes(content.read())
    assert {"Dockerfile", "requirements.lock"} < set(names)
    # The wheel can be installed.
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--no-deps",
        "--offline",
        "--quiet",
        "--target",
    ]
    result = subprocess.run(
        [*command, tmp_path / "site", tmp_path / Path(wheel).name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    with zipfile.ZipFile(tmp_path / Path(wheel).name) as archive_:
        assert not [name for name in archive_.namelist() if "__pycache__" in name]
    assert (tmp_path / "site/det_controlplane/entry/container/main.py").is_file()
    assert (tmp_path / "site/det_provisioner_gcp/api.py").is_file()


def test_a_dry_run_prints_the_plan_and_prices_and_changes_no_resource(
    project: Project, terraform: FakeTerraform
) -> None:
    result = project.run("up", "--cluster-id", "lab", "--dry-run")
    assert result.code == 0, result.err
    assert "Idle, the cluster costs about $9." in result.out
    assert "compute-pool costs $0.73 per machine and hour (n1-standard-8, on-demand)" in result.out
    assert "No resource was changed." in result.err
    assert [call["verb"] for call in terraform.calls("plan", "apply", "import")] == ["plan"]
    assert project.google.buckets == {}


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("database_tier=db-custom-2-7680", "Cloud SQL db-custom-2-7680, always on $98.62"),
        ("database_highly_available=true", "Cloud SQL db-f1-micro, always on $15.33"),
        ("database_tier=db-perf-optimized-N-2", "plus db-perf-optimized-N-2, which always runs"),
    ],
)
def test_a_dry_run_includes_the_price_of_the_database(
    project: Project, terraform: FakeTerraform, variable: str, text: str
) -> None:
    result = project.up("--dry-run", "--var", variable)
    assert result.code == 0, result.err
    assert text in result.out


def test_a_dry_run_reports_disabled_apis(project: Project, terraform: FakeTerraform) -> None:
    project.google.apis.discard("sqladmin")
    result = project.run("up", "--cluster-id", "lab", "--dry-run")
    assert "has disabled APIs that a plan needs: sqladmin" in cause(result)
    assert "apis/library/sqladmin.googleapis.com?project=acme" in result.err
    assert "sqladmin" not in project.google.apis


def test_up_enables_missing_apis(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.apis -= {"run", "sqladmin"}
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up("--image", "img")
    assert result.code == 0, result.err
    assert "Enabling the APIs run, sqladmin" in result.err
    assert {"run", "sqladmin"} <= project.google.apis


@pytest.mark.parametrize("cluster_id", ["Lab", "1lab", "lab-", "a" * 21, "lab_1"])
def test_rejects_an_invalid_cluster_id(project: Project, cluster_id: str) -> None:
    result = project.run("up", "--yes", "--cluster-id", cluster_id)
    assert result.code == 2
    assert "must be a lowercase letter followed by at most 19" in cause(result)
    assert project.google.calls == []


def test_reports_missing_credentials_with_a_hint(
    det: Det, project: Project, terraform: FakeTerraform
) -> None:
    at = ("--project-id", "acme", "--endpoint-url", project.google.url)
    result = det("deploy", "gcp", "up", "--cluster-id", "lab", "--yes", *at)
    assert cause(result) == "there are no Google Cloud credentials"
    assert "gcloud auth application-default login" in result.err


def test_reports_a_missing_project(det: Det, project: Project) -> None:
    result = det("deploy", "gcp", "up", "--cluster-id", "lab", "--yes")
    assert (result.code, cause(result)) == (2, "no project is set")
    assert "--project-id" in result.err


def test_reports_a_missing_key_file(project: Project) -> None:
    project.key = Path("/nowhere/key.json")
    assert cause(project.up()) == "/nowhere/key.json does not exist"


def test_reports_an_unreachable_sign_in(project: Project) -> None:
    key = json.loads(project.key.read_text())
    key["token_uri"] = "http://127.0.0.1:9/token"
    project.key.write_text(json.dumps(key))
    assert "Google's sign-in cannot be reached: " in cause(project.up())


def test_distinguishes_expired_from_missing_credentials(project: Project) -> None:
    project.google.token_is_revoked = True
    result = project.up()
    assert "Google does not accept the credentials: invalid_grant" in cause(result)
    assert "gcloud auth application-default login" in result.err


def test_reports_a_project_of_another_owner(det: Det, project: Project) -> None:
    at = ("--keypath", project.key, "--endpoint-url", project.google.url)
    result = det("deploy", "gcp", "up", "--cluster-id", "lab", "--yes", "--project-id", "acne", *at)
    assert "Project 'acne' not found or permission denied" in cause(result)
    assert "check that acne is the project's id" in result.err


def test_reports_a_project_without_billing_with_a_link(project: Project) -> None:
    project.google.apis.discard("compute")
    project.google.billing = False
    result = project.up()
    assert "project acme has no billing account" in cause(result)
    assert "console.cloud.google.com/billing/linkedaccount?project=acme" in result.err


def test_reports_all_missing_permissions_before_any_change(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.permissions -= {"run.services.create", "compute.networks.create"}
    result = project.up()
    assert "lacks 2 permissions in project acme: compute.networks.create, run.services" in cause(
        result
    )
    assert "roles/owner" in result.err
    assert terraform.calls("init") == []
    assert project.google.buckets == {}


def test_reports_an_unknown_region(project: Project) -> None:
    result = project.up("--region", "us-central1", "--config", _config(project, "us-east1"))
    assert cause(result) == "there is no region us-central1"
    assert "console.cloud.google.com/compute/zones?project=acme" in result.err


def _config(project: Project, region: str) -> Path:
    path = project.key.parent / "master.yaml"
    provider = {
        "type": "gcp",
        "region": region,
        "instance_type": {"machine_type": "n1-standard-4", "gpu_num": 0},
    }
    pools = [{"pool_name": "default", "provider": provider}]
    path.write_text(yaml.safe_dump({"resource_pools": pools}))
    return path


def test_rejects_a_zone_of_another_region(project: Project) -> None:
    result = project.up("--zone", "us-east1-b")
    assert (result.code, cause(result)) == (2, "--zone us-east1-b is not in us-west1")


def test_reports_the_zones_that_have_a_missing_gpu(project: Project) -> None:
    result = project.up("--zone", "us-west1-a")
    assert "us-west1-a has no GPU nvidia-tesla-t4, which compute-pool needs" in cause(result)
    assert "us-west1-b has it" in cause(result)


def test_rejects_gpus_for_types_that_include_gpus(project: Project) -> None:
    result = project.up("--compute-agent-instance-type", "g2-standard-8", "--gpu-num", "2")
    assert (result.code, "GPUs cannot be attached to g2-standard-8" in cause(result)) == (2, True)


def test_reports_a_bucket_name_of_another_project(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.foreign_buckets.add(STATES)
    result = project.up()
    assert f"the bucket {STATES} cannot be used: it belongs to another project" in cause(result)
    assert "--tf-state-gcs-bucket-name" in result.err


def test_reports_the_cause_and_log_of_a_failed_build(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.buckets[DATA] = {}
    project.google.build_ends = {
        "status": "FAILURE",
        "failureInfo": {"detail": "pip: no such version"},
    }
    terraform.answers(state_pull=state(MADE[0]))
    result = project.up()
    assert "Cloud Build could not build the image: FAILURE, pip: no such version" in cause(result)
    assert "https://log" in result.err


def test_reports_the_cause_of_a_failed_apply(project: Project, terraform: FakeTerraform) -> None:
    event = error_event("Error creating Network", "googleapi: Error 403: Quota 'NETWORKS' exceeded")
    terraform.answers(apply={"out": event, "code": 1}, state_pull=state(MADE[0]))
    result = project.up("--image", "img")
    assert "Error creating Network: googleapi: Error 403: Quota 'NETWORKS' exceeded" in cause(
        result
    )
    assert "run the same command again to continue" in result.err


def test_an_interrupted_apply_explains_how_to_continue(
    project: Project, terraform: FakeTerraform, home: Path
) -> None:
    terraform.answers(apply={"waits": True}, state_pull=state(MADE[0]))
    process = subprocess.Popen(
        [sys.executable, "-m", "det_cli.main", "deploy", "gcp", "up", "--yes", "--cluster-id", "lab", "--image", "i",
         "--project-id", "acme", "--keypath", project.key, "--endpoint-url", project.google.url],
        stderr=subprocess.PIPE, text=True, start_new_session=True, env=os.environ,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    assert any("database: Creating" in line for line in process.stderr)
    os.killpg(process.pid, signal.SIGINT)
    output = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 1
    assert "stopped during terraform apply" in output
    assert "run the same command again to continue" in output
    assert (terraform.folder / "stopped").exists(), "Terraform had no time to store its state"


def test_the_deployment_completes_the_settings_of_pools(
    project: Project, terraform: FakeTerraform, tmp_path: Path
) -> None:
    machine = {"machine_type": "n1-standard-8", "gpu_type": "nvidia-tesla-t4", "gpu_num": 1}
    provider = {"type": "gcp", "instance_type": machine}
    config = tmp_path / "master.yaml"
    pool = {"pool_name": "gpus", "provider": provider}
    config.write_text(yaml.safe_dump({"resource_pools": [pool]}))
    result = project.up("--image", "img", "--config", str(config))
    assert terraform.calls("apply"), result.err
    (apply,) = terraform.calls("apply")
    (completed,) = yaml.safe_load(apply["variables"]["cluster_config"])["resource_pools"]
    assert (completed["provider"]["project"], completed["provider"]["region"]) == (
        "acme",
        "us-west1",
    ), result.err


LOCKED = """Error message: writing "gs://determined-state-acme/lab/default.tflock" failed: Error 412
Lock Info:
  ID:        1763828712345678
  Path:      gs://determined-state-acme/lab/default.tflock
  Operation: OperationTypeApply
  Who:       ada@laptop
  Version:   1.11.4
  Created:   2026-11-22 16:05:12.123456 +0000 UTC
"""


def test_reports_the_owner_of_a_concurrent_deployment(
    project: Project, terraform: FakeTerraform
) -> None:
    event = error_event("Error acquiring the state lock", LOCKED)
    terraform.answers(apply={"out": event, "code": 1}, state_pull=state(MADE[0]))
    result = project.up("--image", "img")
    message = "another deployment of this cluster is running: ada@laptop since 2026-11-22 16:05:12"
    assert message in cause(result)
    assert "delete the file gs://determined-state-acme/lab/default.tflock and run" in result.err


def test_reports_a_state_of_a_newer_terraform(project: Project, terraform: FakeTerraform) -> None:
    output = "Error: state snapshot was created by Terraform v1.14.2, which is newer than current v1.11.4"
    terraform.answers(state_pull={"err": output, "code": 1})
    result = project.up("--image", "img")
    assert "last deployed with Terraform 1.14.2" in cause(result)
    assert "install Terraform 1.14.2 or newer" in result.err


def test_status_has_address_and_machines_but_no_password(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.has_cluster()
    project.google.run_machine()
    terraform.answers(output=outputs(cluster))
    status = json.loads(project.run("status", "--cluster-id", "lab", "--json").out)
    assert status == {
        "cluster": "lab", "region": "us-west1", "url": cluster.url, "machines": 1, "answers": True,
    }  # fmt: skip


def test_dump_template_writes_the_stacks(det: Det, tmp_path: Path) -> None:
    result = det("deploy", "gcp", "dump-template", tmp_path / "stacks")
    assert result.code == 0
    assert (tmp_path / "stacks/gcp/main.tf").is_file()
    assert "terraform -chdir=" in result.out
