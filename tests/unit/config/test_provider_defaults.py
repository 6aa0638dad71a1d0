"""Sections of pools are completed with a deployment's settings of its machines."""

from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.provider_defaults import with_defaults

AWS = {
    "region": "us-west-2",
    "iam_instance_profile_arn": "arn:agents",
    "network_interface": {
        "subnet_ids": ["subnet-a", "subnet-b"], "security_group_id": "sg-1", "public_ip": True,
    },
}  # fmt: skip
GCP = {
    "project": "ours",
    "region": "us-central1",
    "network_interface": {"network": "net", "subnetwork": "sub", "external_ip": True},
    "service_account": {"email": "agents@ours", "scopes": ["cloud-platform"]},
}
DEFAULTS = {"aws": AWS, "gcp": GCP}


def filled(section: dict[str, Any], form: str = "provider") -> dict[str, Any]:
    """Return a section as the cluster reads it, which accepts it."""
    pool = {"pool_name": "gpus", form: [section] if form == "offers" else section}
    config = with_defaults({"resource_pools": [pool]}, DEFAULTS)
    load_cluster(config)
    matching_section = config["resource_pools"][0][form]
    own: dict[str, Any] = matching_section[0] if form == "offers" else matching_section
    return own


@pytest.mark.parametrize("form", ["provider", "offers"])
def test_defaults_complete_both_forms_of_a_section(form: str) -> None:
    assert filled({"type": "aws", "instance_type": "g5.xlarge"}, form) == {
        **AWS, "type": "aws", "instance_type": "g5.xlarge",
    }  # fmt: skip
    assert filled({"type": "gcp"}, form) == {**GCP, "type": "gcp"}


def test_each_offer_of_a_mixed_pool_uses_defaults_of_its_cloud() -> None:
    pool = {"pool_name": "mixed", "offers": [{"type": "aws"}, {"type": "gcp"}, {"type": "aws"}]}
    config = with_defaults({"resource_pools": [pool]}, DEFAULTS)
    profiles = [o.get("iam_instance_profile_arn") for o in config["resource_pools"][0]["offers"]]
    projects = [o.get("project") for o in config["resource_pools"][0]["offers"]]
    assert (profiles, projects) == (["arn:agents", None, "arn:agents"], [None, "ours", None])


def test_partial_object_is_merged_with_its_defaults() -> None:
    section = filled({"type": "aws", "network_interface": {"public_ip": False}})
    assert section["network_interface"] == {**AWS["network_interface"], "public_ip": False}  # type: ignore[dict-item]
    section = filled({"type": "gcp", "service_account": {"email": "mine"}})
    assert section["service_account"] == {"email": "mine", "scopes": ["cloud-platform"]}


def test_own_subnet_replaces_the_default_subnets() -> None:
    section = filled({"type": "aws", "network_interface": {"subnet_id": "subnet-mine"}})
    assert section["network_interface"] == {
        "subnet_id": "subnet-mine", "security_group_id": "sg-1", "public_ip": True,
    }  # fmt: skip


def test_own_network_does_not_use_default_subnetwork() -> None:
    own = filled({"type": "gcp", "network_interface": {"network": "mine"}})["network_interface"]
    assert own == {"network": "mine", "external_ip": True}
    own = filled({"type": "gcp", "network_interface": {"subnetwork": "b"}})["network_interface"]
    assert own == {"network": "net", "subnetwork": "b", "external_ip": True}


@pytest.mark.parametrize("place", [{"zone": "us-west-2a"}, {"zones": ["us-west-2a"]}])
def test_zone_in_the_default_region_uses_the_default_network(place: dict[str, Any]) -> None:
    section = filled({"type": "aws", **place})
    assert "region" not in section
    assert section["network_interface"] == AWS["network_interface"]


@pytest.mark.parametrize(
    "place",
    [
        {"region": "eu-west-1"},
        {"regions": ["eu-west-1", "us-east-1"]},
        {"zone": "eu-west-1a"},
        {"zones": ["eu-west-1a"]},
    ],
)
def test_other_region_uses_default_identity_without_subnets(place: dict[str, Any]) -> None:
    section = filled({"type": "aws", **place})
    assert {key: section[key] for key in section if key in ("region", *place)} == place
    assert section["network_interface"] == {"public_ip": True}
    assert section["iam_instance_profile_arn"] == "arn:agents"


def test_sections_without_defaults_are_not_changed() -> None:
    raw = {"resource_pools": [{"pool_name": "own"}, "broken", {"offers": ["broken"]}], "log": {}}
    assert with_defaults(raw, DEFAULTS) == raw
    assert with_defaults({"resource_pools": None}, DEFAULTS) == {"resource_pools": None}
