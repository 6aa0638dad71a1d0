"""Pools on Google Cloud get an image that exists; Terraform and Google Cloud are stand-ins."""

from pathlib import Path

import yaml
from det_cli.deployment.machine_images import GPU_IMAGE

from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE, Project, outputs, state


def test_a_pool_of_a_configuration_that_names_no_image_has_one_that_exists(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster, tmp_path: Path
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    own = "projects/acme/global/images/family/determined-agent"
    sections = [{"type": "gcp"}, {"type": "gcp", "boot_disk_source_image": own}]
    pool = {"pool_name": "gpus", "offers": sections}
    config = tmp_path / "master.yaml"
    config.write_text(yaml.safe_dump({"resource_pools": [pool]}))
    ran = project.up("--image", "img", "--no-preflight-checks", "--config", config)
    assert ran.code == 0, ran.err
    (apply,) = terraform.calls("apply")
    (made,) = yaml.safe_load(apply["variables"]["cluster_config"])["resource_pools"]
    assert [o["boot_disk_source_image"] for o in made["offers"]] == [GPU_IMAGE, own]
