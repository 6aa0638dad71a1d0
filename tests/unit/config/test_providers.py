"""Where the machines of a pool come from, as the configuration says it."""

import re
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.cluster_document import document
from det_controlplane.core.config.providers import Provider, expand
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.core.provision.warm import WarmPolicy
from det_controlplane.db.scheduling.schedule import PoolRows
from det_controlplane.services.scheduling import schedule_pool

ROOT = Path(__file__).resolve().parents[3]
AWS = {"type": "aws", "region": "us-east-1", "instance_type": "g5.xlarge"}
GCP = {"type": "gcp", "zone": "us-central1-a", "instance_types": ["g2-standard-8"]}


def provider(section: dict[str, Any] | None = None, **pool: Any) -> Provider:
    keys = {**pool, **({"provider": section} if section else {})}
    config = load_cluster({"resource_pools": [{"pool_name": "default", **keys}]})
    matching_provider = config.resource_pools[0].provider
    assert matching_provider is not None
    return matching_provider


def offers(section: dict[str, Any] | None = None, **pool: Any) -> list[str]:
    return [str(offer) for offer in expand(provider(section, **pool))]


def only(section: dict[str, Any]) -> Offer:
    (offer,) = expand(provider(section))
    return offer


def problems(section: dict[str, Any] | None = None, **pool: Any) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as error:
        provider(section, **pool)
    prefix = "resource_pools[0]."
    return {p.path.removeprefix(prefix): p.message for p in error.value.problems}


def test_provider_equals_a_list_of_one_section() -> None:
    assert offers(AWS) == ["aws us-east-1 g5.xlarge on-demand"]


def test_a_pool_mixes_clouds_regions_and_kinds_of_capacity_in_the_order_of_preference() -> None:
    spot_first = {
        "type": "aws", "zones": ["us-east-1a", "us-east-1b"], "instance_types": ["g5.xlarge"],
        "capacity": ["spot", "on-demand"],
    }  # fmt: skip
    assert offers(offers=[spot_first, GCP]) == [
        "aws us-east-1a g5.xlarge spot",
        "aws us-east-1b g5.xlarge spot",
        "aws us-east-1a g5.xlarge on-demand",
        "aws us-east-1b g5.xlarge on-demand",
        "gcp us-central1-a g2-standard-8 on-demand",
    ]


def test_fields_of_determined_without_effect_are_listed() -> None:
    aws = {**AWS, "agent_docker_image": "x", "log_group": "y", "container_startup_script": "true"}
    gcp = {**GCP, "name_prefix": "det"}
    config = load_cluster(
        {
            "resource_manager": {
                "default_compute_resource_pool": "one",
                "default_aux_resource_pool": "one",
            },
            "resource_pools": [
                {"pool_name": "one", "provider": {**aws, "launch_error_retries": 2}},
                {"pool_name": "two", "offers": [AWS, gcp]},
            ],
        }
    )
    assert config.ignored == (
        "resource_pools[0].provider.agent_docker_image",
        "resource_pools[0].provider.log_group",
        "resource_pools[0].provider.launch_error_retries",
        "resource_pools[1].offers[1].name_prefix",
    )


def test_pull_images_accepts_one_name_or_a_list() -> None:
    images = ["determinedai/pytorch-ngc:0.38.0", "registry.example.com:5000/team/a@sha256:0f"]
    assert provider({**AWS, "pull_images": images}).sections[0].settings["pull_images"] == images
    assert provider({**AWS, "pull_images": "a"}).sections[0].settings["pull_images"] == ["a"]
    messages = {"provider.pull_images": "lists '-q a', which is no name of an image"}
    assert problems({**AWS, "pull_images": ["a", "-q a"]}) == messages


def test_each_offer_has_the_index_of_its_section() -> None:
    matching_offers = expand(provider(offers=[AWS, GCP]))
    assert [offer.section for offer in matching_offers] == [0, 1]


def test_regions_without_named_zones_use_any_zone() -> None:
    section = {**AWS, "regions": ["us-east-1", "us-west-2"], "zones": ["us-west-2b"]}
    del section["region"]
    assert offers(section) == [
        "aws us-east-1 g5.xlarge on-demand",
        "aws us-west-2b g5.xlarge on-demand",
    ]


def test_default_machine_types_equal_those_of_determined() -> None:
    aws = only({"type": "aws", "region": "us-east-1"})
    assert (aws.machine_type, aws.slots) == ("g4dn.metal", 8)
    gcp = only({"type": "gcp", "zone": "us-central1-a"})
    assert (gcp.machine_type, gcp.slots) == ("n1-standard-32", 4)


def test_attached_gpus_of_n1_types_count_as_slots() -> None:
    attached = {"machine_type": "n1-standard-8", "gpu_type": "nvidia-tesla-v100", "gpu_num": 2}
    gcp_provider = provider({"type": "gcp", "zone": "us-central1-a", "instance_type": attached})
    (offer,) = expand(gcp_provider)
    assert (offer.slots, offer.price_usd_hour) == (2, Decimal("5.3400"))
    by_default = provider({"type": "gcp", "zone": "us-central1-a"}).sections[0].settings
    assert by_default["instance_type"]["gpu_type"] == "nvidia-tesla-t4"
    assert by_default["instance_type"]["gpu_num"] == 4


@pytest.mark.parametrize(
    "section",
    [
        {**AWS, "spot": True},
        {**AWS, "capacity": "spot"},
        {"type": "gcp", "region": "us-west1", "instance_type": {"preemptible": True}},
    ],
)
def test_new_and_old_keys_select_spot_machines(section: dict[str, Any]) -> None:
    assert only(section).capacity is Capacity.SPOT


@pytest.mark.parametrize("name", ["a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"])
def test_types_that_the_cloud_rents_as_spot_only_are_never_offered_on_demand(name: str) -> None:
    section = {"type": "gcp", "region": "us-central1", "instance_type": {"machine_type": name}}
    with pytest.raises(InvalidConfig, match=f"{name} is rented as spot capacity only"):
        provider(section)
    assert only({**section, "spot": True}).capacity is Capacity.SPOT
    both = {**section, "instance_types": [name, "a3-highgpu-8g"], "capacity": ["spot", "on-demand"]}
    del both["instance_type"]
    assert offers(both) == [
        f"gcp us-central1 {name} spot",
        "gcp us-central1 a3-highgpu-8g spot",
        "gcp us-central1 a3-highgpu-8g on-demand",
    ]


def test_machines_without_gpus_have_a_slot_only_if_allowed() -> None:
    cpu = {**AWS, "instance_type": "m5.large"}
    assert only(cpu).slots == 0
    assert only({**cpu, "cpu_slots_allowed": True}).slots == 1


def test_operator_can_describe_an_unknown_type() -> None:
    new = {**AWS, "instance_type": "p9.huge", "instance_slots": 16, "instance_price": "70.50"}
    assert (only(new).slots, only(new).price_usd_hour) == (16, Decimal("70.5000"))
    assert only({**AWS, "instance_slots": 2}).slots == 2


def test_offers_have_the_list_prices() -> None:
    aws_provider = provider({**AWS, "zone": "us-east-1a", "capacity": ["spot", "on-demand"]})
    assert [o.price_usd_hour for o in expand(aws_provider)] == [
        Decimal("0.4527"),
        Decimal("1.0060"),
    ]


def test_machine_costs_more_in_an_expensive_region() -> None:
    assert only({**AWS, "region": "eu-central-1"}).price_usd_hour == Decimal("1.2575")


def test_lower_price_cap_applies_to_spot_machines() -> None:
    aws_provider = provider(
        {**AWS, "capacity": ["spot", "on-demand"], "max_price": 2, "spot_max_price": "0.5"}
    )
    caps = [offer.max_price_usd_hour for offer in expand(aws_provider)]
    assert caps == [Decimal("0.5"), Decimal(2)]


def test_pool_limits_are_read_from_provider_or_pool() -> None:
    single = provider({**AWS, "max_instances": 3}, warm_instances=1, max_hourly_cost="12.50")
    listed_provider = provider(
        offers=[AWS], max_instances=3, warm_instances=1, max_hourly_cost=12.5
    )
    for read in (single, listed_provider):
        assert (read.max_instances, read.warm_instances) == (3, 1)
        assert read.max_hourly_cost == Decimal("12.5")


def test_pool_may_choose_its_warm_machines_within_a_bound() -> None:
    keys = {"warm_instances": "auto", "max_warm_cost_per_day": "4.5"}
    read = provider(AWS, **keys)
    assert (read.warm_instances, read.warm_policy) == (0, WarmPolicy(4.5, 10.0))
    assert provider(AWS, **keys, waiting_cost_per_hour=2).warm_policy == WarmPolicy(4.5, 2.0)
    assert provider(AWS, warm_instances=1).warm_policy is None
    config = load_cluster({"resource_pools": [{"pool_name": "default", "offers": [AWS], **keys}]})
    assert load_cluster(document(config)) == config


def test_warm_machines_of_a_pool_need_a_bound() -> None:
    assert problems(AWS, warm_instances="auto") == {
        "max_warm_cost_per_day": "is required with warm_instances: auto"
    }
    assert problems(AWS, warm_instances="some") == {
        "warm_instances": "must be a whole number or auto, not 'some'"
    }
    assert problems(AWS, warm_instances="auto", max_warm_cost_per_day=-5) == {
        "max_warm_cost_per_day": "must be an amount of dollars, 0 or more, not -5"
    }
    assert problems(AWS, warm_instances="auto", max_warm_cost_per_day=0) == {
        "max_warm_cost_per_day": "is 0, so no machine is kept; remove warm_instances instead"
    }
    only = problems(AWS, max_warm_cost_per_day=1)
    assert only == {"max_warm_cost_per_day": "needs warm_instances: auto"}


def test_document_of_listed_offers_loads_as_the_same_configuration() -> None:
    pools = [
        {"pool_name": "default", "offers": [AWS, GCP], "max_hourly_cost": 9, "max_instances": 2}
    ]
    config = load_cluster({"resource_pools": pools})
    second_config = load_cluster(document(config))
    assert second_config.resource_pools == config.resource_pools


def test_all_problems_of_a_section_are_reported_together() -> None:
    section = {
        "type": "aws", "region": "us-eest-1", "instance_types": ["g5.xlarg", "g5.2xlarge"],
        "capacity": ["spott"], "max_price": "cheap", "root_volume_size": 20, "instance_tpye": "x",
    }  # fmt: skip
    problems_by_path = problems(section)
    assert "did you mean" in problems_by_path["provider.region"]
    assert "did you mean g5.xlarge" in problems_by_path["provider.instance_types"]
    assert "lists 'spott'; it may list spot and on-demand" in problems_by_path["provider.capacity"]
    assert "must be an amount of dollars" in problems_by_path["provider.max_price"]
    assert "from 100" in problems_by_path["provider.root_volume_size"]
    assert "did you mean 'instance_type'" in problems_by_path["provider.instance_tpye"]


@pytest.mark.parametrize(
    ("section", "path", "said"),
    [
        ({"type": "azure"}, "provider.type", "aws or gcp, not 'azure'"),
        ({"type": "aws"}, "provider.region", "is required"),
        ({**AWS, "zone": "us-west-2a"}, "provider.zone", "in us-west-2, which is not among"),
        ({**AWS, "zone": "us-east-1"}, "provider.zone", "zones are written like us-east-1a"),
        ({**GCP, "zone": "us-central1-aa"}, "provider.zone", "written like us-central1-a"),
        ({**AWS, "instance_type": "q1.huge"}, "provider.instance_type", "give instance_slots"),
        (
            {**GCP, "instance_types": ["n1-standard-8"], "instance_type": {"gpu_type": "t4"}},
            "provider.instance_type.gpu_type",
            "GPUs that N1 types take: nvidia-tesla-t4",
        ),
        ({**AWS, "instance_types": ["g5.xlarge"]}, "provider.instance_types", "cannot both"),
    ],
)
def test_rejects_values_unknown_to_the_cloud_with_a_remedy(
    section: dict[str, Any], path: str, said: str
) -> None:
    assert said in problems(section)[path]


def test_a_problem_in_a_list_names_its_section() -> None:
    problems_by_path = problems(offers=[AWS, {**GCP, "instance_types": ["g2-standard-9"]}])
    assert list(problems_by_path) == ["offers[1].instance_types"]


def test_provider_and_offers_exclude_each_other() -> None:
    assert "cannot both be given" in problems(AWS, offers=[GCP])["offers"]
    assert "at least one" in problems(offers=[])["offers"]


def test_rejects_warm_machines_for_a_pool_without_a_provider() -> None:
    assert "rents no machines" in problems(warm_instances=1)["warm_instances"]


def test_pool_for_decisions_has_its_offers_and_limits() -> None:
    scheduler = {"type": "fair_share", "fitting_policy": "worst", "allow_heterogeneous_fits": True}
    keys = {"offers": [AWS, GCP], "max_instances": 3, "max_aux_containers_per_agent": 7}
    config = load_cluster(
        {"resource_pools": [{"pool_name": "default", **keys, "scheduler": scheduler}]}
    )
    (pool,) = config.resource_pools
    assert [offer.machine_type for offer in pool.offers] == ["g5.xlarge", "g2-standard-8"]
    assert [section.regions for section in pool.sections] == [("us-east-1",), ("us-central1",)]
    assert (pool.limits.max_instances, pool.limits.max_aux_containers) == (3, 7)
    assert (pool.limits.fitting_policy, pool.limits.allow_heterogeneous_fits) == ("worst", True)
    assert pool.limits.preemption  # without priorities, no job waits behind them


def test_snapshot_has_the_slots_of_the_largest_offer() -> None:
    large = {**AWS, "instance_types": ["g5.xlarge", "g5.48xlarge"]}
    del large["instance_type"]
    config = load_cluster({"resource_pools": [{"pool_name": "default", "offers": [large]}]})
    rows = PoolRows(agents=(), pending=(), running=())
    snapshot = schedule_pool.snapshot_of(SimpleNamespace(config=config), "default", rows)  # type: ignore[arg-type]
    assert snapshot.max_slots_per_launch == 8


@pytest.mark.parametrize("section", [AWS, GCP], ids=["aws", "gcp"])
def test_documented_fields_of_each_cloud_are_accepted(section: dict[str, Any]) -> None:
    page = (ROOT / f"docs/reference/{section['type']}.md").read_text("utf-8")
    table = page.partition("## The section")[2].partition("##")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    fields = {name for cell in cells for name in re.findall(r"`([a-z_]+)(?:\.[a-z_]+)*`", cell)}
    assert len(fields) > 8
    provider({**dict.fromkeys(fields), **section})


ACCOUNT = {
    "type": "external_account", "audience": "//iam.googleapis.com/x", "subject_token_type": "aws4_request",
    "token_url": "https://sts.googleapis.com/v1/token",
    "service_account_impersonation_url": "https://iamcredentials.googleapis.com/v1/x",
}  # fmt: skip
ROLE = "arn:aws:iam::123456789012:role/det-lab-machine-of-gcp"


def test_sections_accept_identities_in_the_other_cloud() -> None:
    both = provider(offers=[{**AWS, "google_credentials": ACCOUNT}, {**GCP, "aws_role_arn": ROLE}])
    settings = [section.settings for section in both.sections]
    assert settings[0]["google_credentials"] == ACCOUNT
    assert settings[1]["aws_role_arn"] == ROLE


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({**AWS, "google_credentials": {"type": "service_account"}}, "a key would be a secret"),
        ({**AWS, "google_credentials": {"type": "external_account"}}, "lacks audience"),
        ({**AWS, "google_credentials": {**ACCOUNT, "token_url": "http://a"}}, "HTTPS as token_url"),
        ({**AWS, "google_credentials": "google.json"}, "must be an object"),
        ({**AWS, "aws_role_arn": ROLE}, "aws_role_arn"),
        ({**GCP, "aws_role_arn": "det-lab-machine-of-gcp"}, "must be the ARN of a role"),
        ({**GCP, "google_credentials": ACCOUNT}, "google_credentials"),
    ],
)
def test_rejects_identity_in_the_other_cloud_without_effect(
    section: dict[str, Any], complaint: str
) -> None:
    assert complaint in str(problems(section))
