"""The compute contract for Google Compute Engine, through Google's own client library."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import det_provisioner_gcp
import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity
from det_controlplane.entry.clouds import clouds_of, identities_of
from det_controlplane.entry.settings import BadSettings
from det_controlplane.ports.compute import LaunchRequest, Place, Unreachable
from det_controlplane.testing.contracts.compute import ComputeContract, launch_request
from det_provisioner_gcp import naming
from det_provisioner_gcp.compute_engine import GceCompute

from tests.support.gce_provider import PROJECT, REGION, ZONE, Gce, body_of, offer, provided


@pytest.fixture
def cloud() -> Iterator[Gce]:
    with provided() as gce:
        yield gce


class TestGceKeepsTheContract(ComputeContract):
    pass


def test_machine_has_the_settings_of_the_pool(cloud: Gce) -> None:
    settings = {
        "boot_disk_size": 300,
        "boot_disk_type": "pd-ssd",
        "boot_disk_source_image": "projects/images/global/images/gpu-7",
        "network_interface": {"network": "training", "subnetwork": "gpus", "external_ip": True},
        "network_tags": ["agents"],
        "service_account": {"email": "agent@acme.iam", "scopes": ["storage-ro"]},
        "labels": {"Team": "Vision & Co"},
        "label_key": "managed-by",
        "shielded": {"secure_boot": True},
    }
    request = launch_request(cloud, [offer()], pool="Big_GPUs", settings=settings)
    body = body_of(cloud, cloud.compute.launch(request).machine)
    assert body["name"] == f"det-{request.machine_id.hex}-1"
    (disk,) = body["disks"]
    assert disk["initializeParams"] == {
        "sourceImage": "projects/images/global/images/gpu-7",
        "diskSizeGb": "300",
        "diskType": f"projects/acme/zones/{ZONE}/diskTypes/pd-ssd",
        "labels": body["labels"],  # the bill assigns the disk to its cluster with these
    }
    assert disk["autoDelete"] is True
    (interface,) = body["networkInterfaces"]
    assert interface["network"] == "projects/acme/global/networks/training"
    assert interface["subnetwork"] == f"projects/acme/regions/{REGION}/subnetworks/gpus"
    assert [a["type"] for a in interface["accessConfigs"]] == ["ONE_TO_ONE_NAT"]
    assert body["tags"] == {"items": ["agents"]}
    assert body["serviceAccounts"] == [{"email": "agent@acme.iam", "scopes": ["storage-ro"]}]
    assert body["shieldedInstanceConfig"]["enableSecureBoot"] is True
    labels = body["labels"]
    assert labels["det-machine"] == request.machine_id.hex
    assert labels["det-cluster"] == request.cluster_id
    assert labels["det-pool"].startswith("big_gpus-")
    assert labels["managed-by"] == "determined"
    assert any(k.startswith("team-") and v.startswith("vision---co-") for k, v in labels.items())


def test_default_machine_can_prove_its_identity_and_has_no_external_ip(cloud: Gce) -> None:
    body = body_of(cloud, cloud.compute.launch(launch_request(cloud, [offer()])).machine)
    (account,) = body["serviceAccounts"]
    assert account["email"] == "default"
    assert account["scopes"] == ["https://www.googleapis.com/auth/userinfo.email"]
    (interface,) = body["networkInterfaces"]
    assert interface == {"network": "projects/acme/global/networks/default"}
    params = body["disks"][0]["initializeParams"]
    assert params["sourceImage"] == "projects/acme/global/images/family/determined-agent"
    assert (params["diskSizeGb"], params["diskType"].rpartition("/")[2]) == ("200", "pd-balanced")


@pytest.mark.parametrize(
    ("machine_type", "disk"),
    [
        *(
            (name, "hyperdisk-balanced")
            for name in ("n4-standard-8", "n4a-standard-8", "n4d-standard-8", "h4d-standard-192")
        ),
        *((name, "pd-balanced") for name in ("n2d-standard-8", "c2d-standard-8", "h3-standard-88")),
    ],
)
def test_type_without_persistent_disks_gets_a_hyperdisk(
    cloud: Gce, machine_type: str, disk: str
) -> None:
    cloud.fake.machine_types[machine_type] = next(iter(cloud.fake.machine_types.values()))
    request = launch_request(cloud, [offer(machine_type=machine_type)])
    params = body_of(cloud, cloud.compute.launch(request).machine)["disks"][0]["initializeParams"]
    assert params["diskType"].rpartition("/")[2] == disk


@pytest.mark.parametrize(
    ("user_data", "key"),
    [("#!/bin/sh\ntrue\n", "startup-script"), ("#cloud-config\nruncmd: []\n", "user-data")],
)
def test_user_data_key_depends_on_its_format(cloud: Gce, user_data: str, key: str) -> None:
    request = replace(launch_request(cloud, [offer()]), user_data=user_data)
    items = body_of(cloud, cloud.compute.launch(request).machine)["metadata"]["items"]
    assert {"key": key, "value": user_data} in items
    assert {item["key"] for item in items} == {key, "det-pool"}


def test_spot_machines_are_deleted_on_preemption(cloud: Gce) -> None:
    spot = offer(capacity=Capacity.SPOT)
    body = body_of(cloud, cloud.compute.launch(launch_request(cloud, [spot])).machine)
    assert body["scheduling"] == {
        "automaticRestart": False,
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "provisioningModel": "SPOT",
    }


def test_gpus_are_attached_only_to_types_without_built_in_gpus(cloud: Gce) -> None:
    settings = {"instance_type": {"gpu_type": "nvidia-tesla-t4", "gpu_num": 2}}
    attached, built_in, without = (
        body_of(cloud, cloud.compute.launch(launch_request(cloud, [o], settings=settings)).machine)
        for o in (offer("n1-standard-8"), offer("g2-standard-8"), offer("e2-standard-4"))
    )
    (accelerator,) = attached["guestAccelerators"]
    assert accelerator == {
        "acceleratorType": f"projects/acme/zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4",
        "acceleratorCount": 2,
    }
    assert "guestAccelerators" not in {*built_in, *without}
    assert "onHostMaintenance" not in without["scheduling"]
    for body in (attached, built_in):
        assert body["scheduling"]["onHostMaintenance"] == "TERMINATE"


def test_machines_use_the_placement_policy_of_their_section(cloud: Gce) -> None:
    request = launch_request(cloud, [offer()], settings={"placement_policy": "near"})
    (policy,) = body_of(cloud, cloud.compute.launch(request).machine)["resourcePolicies"]
    assert re.fullmatch(r"projects/[^/]+/regions/[^/]+/resourcePolicies/near", policy)


def test_pool_settings_override_base_config(cloud: Gce) -> None:
    base = {
        "minCpuPlatform": "Intel Ice Lake",
        "labels": {"cost-center": "42", "det-pool": "forged"},
        "metadata": {"items": [{"key": "enable-oslogin", "value": "TRUE"}]},
        "scheduling": {"maxRunDuration": {"seconds": "86400"}},
    }
    request = launch_request(cloud, [offer()], settings={"base_config": base})
    body = body_of(cloud, cloud.compute.launch(request).machine)
    assert body["minCpuPlatform"] == "Intel Ice Lake"
    assert body["labels"]["cost-center"] == "42"
    assert body["labels"]["det-pool"] == "gpus"
    assert {"key": "enable-oslogin", "value": "TRUE"} in body["metadata"]["items"]
    assert body["scheduling"]["maxRunDuration"] == {"seconds": "86400"}
    assert body["scheduling"]["automaticRestart"] is False


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"boot_disk_size": 20}, "boot_disk_size"),
        ({"labels": "gpu"}, "labels"),
        ({"base_config": {"minCpuPlattform": "x"}}, "minCpuPlattform"),
        ({"shielded": {"secureboot": True}}, "secureboot"),
    ],
)
def test_refusal_names_the_invalid_field(
    cloud: Gce, settings: Mapping[str, Any], field: str
) -> None:
    outcome = cloud.compute.launch(launch_request(cloud, [offer()], settings=settings))
    (refusal,) = outcome.refusals
    assert (outcome.machine, refusal.kind) == (None, RefusalKind.INVALID)
    assert field in refusal.sentence
    assert cloud.fake.instances == []


def test_listing_fails_if_a_zone_is_silent(cloud: Gce) -> None:
    cloud.fake.unreachable_zones.add("us-central1-b")
    with pytest.raises(Unreachable, match="us-central1-b"):
        cloud.compute.owned("any", cloud.place)


def test_machines_of_other_regions_are_listed_there(cloud: Gce) -> None:
    request = launch_request(cloud, [replace(offer(zone="europe-west4-a"), region="europe-west4")])
    cloud.compute.launch(request)
    assert list(cloud.compute.owned(request.cluster_id, cloud.place)) == []
    (machine,) = cloud.compute.owned(
        request.cluster_id, Place("europe-west4", {"project": PROJECT})
    )
    assert machine.machine_id == request.machine_id


def test_machines_of_every_project_are_listed(cloud: Gce) -> None:
    """Two sections may rent in one region in different projects. Stored machines may be in a third one."""
    for number, project in enumerate(("acme", "vision", "former")):
        cloud.fake.add(project, ZONE, f"m{number}", labels={"det-cluster": "c"})
    compute = GceCompute(cloud.compute._api, projects=["acme", "vision"])
    place = Place(REGION, {"project": "acme"}, ("former/m2",))
    machine_ids = {m.cloud_id for m in compute.owned("c", place)}
    assert machine_ids == {"acme/m0", "vision/m1", "former/m2"}
    assert {m.cloud_id for m in compute.owned("c", replace(place, settings={}))} == machine_ids


def test_machine_with_an_edited_label_is_listed(cloud: Gce) -> None:
    cloud.fake.add(PROJECT, ZONE, "edited", labels={"det-cluster": "c", "det-machine": "mine"})
    (machine,) = cloud.compute.owned("c", cloud.place)
    assert (machine.machine_id, machine.cloud_id) == (None, "acme/edited")


def test_stopped_machine_is_listed_with_the_reason(cloud: Gce) -> None:
    request = launch_request(cloud)
    cloud.compute.launch(request)
    cloud.fake.instances[0].stopped_because = "Stopped by the guest."
    (machine,) = cloud.compute.owned(request.cluster_id, cloud.place)
    assert (machine.state, machine.ended_because) == ("stopped", "Stopped by the guest.")


def test_names_and_request_ids_depend_on_the_token() -> None:
    request = LaunchRequest("c", "p", UUID(int=7), 3, (offer(),), {}, "")
    assert naming.machine_name(request) == "det-00000000000000000000000000000007-3"
    assert naming.request_id(request, "a") == naming.request_id(request, "a")
    ids = {
        naming.request_id(r, *parts)
        for r in (request, replace(request, attempt=4))
        for parts in (["a"], ["b"])
    }
    assert len(ids) == 4


def test_label_values_are_distinct_and_valid() -> None:
    names = ["gpus", "GPUs", "Gpus", "a" * 80, "a" * 81, "über", "a b", "a_b"]
    values = {naming.label_value(n) for n in names}
    assert len(values) == len(names)
    assert all(len(v) <= 63 for v in values)
    assert naming.label_value("gpus") == "gpus"


def test_package_provides_compute_and_verifiers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
    assert det_provisioner_gcp.compute([{}]).provider == "gcp"
    (verifier,) = det_provisioner_gcp.identity_verifiers([{}, {"project": "other"}])
    assert verifier.kind == "gce_identity_token"


def test_error_without_googles_libraries_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = {"type": "gcp", "zone": ZONE, "instance_type": "g2-standard-8"}
    config = load_cluster({"resource_pools": [{"pool_name": "default", "provider": provider}]})
    assert clouds_of(config).keys() == {"gcp"}
    assert identities_of(config).keys() == {"gce_identity_token"}
    monkeypatch.setitem(sys.modules, "google.cloud.compute_v1", None)
    monkeypatch.setitem(sys.modules, "google.auth", None)
    for of_config in (clouds_of, identities_of):
        with pytest.raises(BadSettings, match=r"install determined-serverless\[gcp\]"):
            of_config(config)


def test_googles_libraries_are_not_imported_before_a_call() -> None:
    code = (
        "import sys, det_provisioner_gcp.compute_engine as c; c.GceCompute(c.GceApi());"
        "print([m for m in sys.modules if m.startswith('google')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
