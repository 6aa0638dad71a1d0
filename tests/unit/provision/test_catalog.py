"""The bundled tables of machine types."""

from decimal import Decimal

import pytest
from det_controlplane.core.provision import catalog_aws, catalog_gcp
from det_controlplane.core.provision.catalog import Unknown, check_region, machine_type, region_of
from det_controlplane.core.provision.offers import Capacity


@pytest.mark.parametrize(
    ("name", "slots"),
    [
        *[(f"g4dn.{n}xlarge", 1) for n in ("", 2, 4, 8, 16)],
        *[("g4dn.12xlarge", 4), ("g4dn.metal", 8), ("g5.xlarge", 1), ("g5.12xlarge", 4)],
        *[("g5.24xlarge", 4), ("g5.48xlarge", 8), ("p2.xlarge", 1), ("p2.8xlarge", 8)],
        *[("p2.16xlarge", 16), ("p3.2xlarge", 1), ("p3.8xlarge", 4), ("p3.16xlarge", 8)],
        *[("p3dn.24xlarge", 8), ("p4d.24xlarge", 8), ("t3.large", 0), ("m6i.xlarge", 0)],
    ],
)
def test_machine_types_have_the_slots_of_determined(name: str, slots: int) -> None:
    assert machine_type("aws", name).type.slots == slots


@pytest.mark.parametrize("table", [catalog_aws, catalog_gcp])
def test_every_type_has_a_price_and_its_own_name(table: object) -> None:
    for name, (machine, price) in table.types().items():  # type: ignore[attr-defined]
        assert machine.name == name
        assert price > 0
        assert machine.vcpus > 0
        assert bool(machine.slots) == bool(machine.accelerator)


def test_spot_costs_a_part_of_the_price_on_demand() -> None:
    machine = machine_type("gcp", "a2-highgpu-1g")
    assert machine.price("us-central1", Capacity.ON_DEMAND) == Decimal("3.6739")
    assert machine.price("us-central1", Capacity.SPOT) == Decimal("1.4696")


def test_region_is_derived_from_zone() -> None:
    assert region_of("aws", "us-west-2-lax-1a") == "us-west-2"
    assert region_of("gcp", "europe-west4-b") == "europe-west4"
    assert region_of("gcp", "us-central1-ai1a") == "us-central1"
    with pytest.raises(Unknown):
        region_of("aws", "us-central1-a")


def test_a_region_of_the_other_cloud_is_unknown() -> None:
    with pytest.raises(Unknown, match="must be a region of gcp"):
        check_region("gcp", "us-east-1")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("g5.xxlarge", "'g5.xxlarge' is unknown; did you mean g5.xlarge or"),
        (
            "p3",
            "'p3' is unknown; did you mean p3.16xlarge or p3.2xlarge or p3.8xlarge? For a newer",
        ),
        ("quantum", "'quantum' is unknown. For a newer type give instance_slots"),
    ],
)
def test_error_for_unknown_type_suggests_similar_types(name: str, told: str) -> None:
    with pytest.raises(Unknown) as e:
        machine_type("aws", name)
    assert str(e.value).startswith(told)
