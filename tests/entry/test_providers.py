"""Packages of other clouds: found by entry point, checked at the start, read from the configuration."""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.config.cluster import ClusterConfig, load_cluster
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.core.provision import catalog
from det_controlplane.core.provision.boot import Boot, user_data
from det_controlplane.entry import providers
from det_controlplane.entry.clouds import clouds_of, identities_of, markets_of
from det_controlplane.entry.settings import BadSettings

GARAGE = Path(__file__).resolve().parents[2] / "examples/provider"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with an entry point on the path, and restore the registered catalogs afterwards.

    Packages that the environment has, such as the example, are not seen."""
    monkeypatch.setattr(catalog, "_CATALOGS", dict(catalog._CATALOGS))
    monkeypatch.setattr(
        providers,
        "entry_points",
        lambda group: [
            point
            for distribution in distributions(path=[str(tmp_path)])
            for point in distribution.entry_points
            if point.group == group
        ],
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    providers.provider.cache_clear()
    modules = set(sys.modules)

    def add(package: str, code: str = "", name: str = "garage", target: str = "") -> None:
        module = package.replace("-", "_")
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        point = target or f"{module}:PROVIDER"
        (info / "entry_points.txt").write_text(f"[determined.providers]\n{name} = {point}\n")
        (tmp_path / f"{module}.py").write_text(code)

    yield add
    providers.provider.cache_clear()
    for module in set(sys.modules) - modules:
        if module.startswith("det_provider_") or "garage" in module:
            del sys.modules[module]


@pytest.fixture
def garage(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the example."""
    monkeypatch.syspath_prepend(str(GARAGE))
    install("det-provider-garage-info", target="det_provider_garage:PROVIDER")


def config(**section: Any) -> dict[str, Any]:
    pool = {"pool_name": "p", "provider": {"type": "garage", "region": "home", **section}}
    return {"resource_pools": [pool]}


def code(**changes: str) -> str:
    """Return a module with a provider that differs from a valid one."""
    arguments = {"name": '"garage"', "compute": "None", "identity_verifiers": "None", **changes}
    given = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return f"""
from det_controlplane.core.provision.catalog import Catalog
from det_controlplane.ports.provider import Provider
CATALOG = Catalog("garage", dict, {{"home": 1}})
PROVIDER = Provider({given})
"""


def problem(found: dict[str, Any]) -> str:
    with pytest.raises(BadSettings) as refusal:
        providers.register_used(found)
    return str(refusal.value)


def test_a_missing_package_is_named_with_the_known_providers(install: Install) -> None:
    install("other-cloud", code(), name="shed")
    assert problem(config()) == (
        "a resource pool rents from 'garage', and no installed package has this provider; this control plane has"
        " aws, gcp, shed: install the package (an entry point 'garage' of the group determined.providers) where it runs"
    )


def test_two_packages_with_one_name_are_refused(install: Install) -> None:
    install("first-garage", code(catalog="CATALOG"))
    install("second-garage", code(catalog="CATALOG"))
    assert problem(config()) == (
        "two packages have the provider 'garage': first-garage 1.0 and second-garage 1.0; uninstall one"
    )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            code(catalog="CATALOG", interface="2"),
            "has version 2 of the interface, and this control plane has 1: upgrade the control plane",
        ),
        (code(catalog="CATALOG", interface="0"), "upgrade the package"),
        (code(), "has no catalog of machine types and regions"),
        (code(name='"shed"', catalog="CATALOG"), "calls itself 'shed'"),
        ("PROVIDER = object()", "is no det_controlplane.ports.provider.Provider"),
        ("import no_such_library", "cannot be loaded: No module named 'no_such_library'"),
        ("", "cannot be loaded: "),
    ],
)
def test_a_wrong_package_is_refused_with_its_name(
    install: Install, module: str, message: str
) -> None:
    install("my-garage", module)
    assert "provider 'garage' (my-garage 1.0)" in problem(config())
    assert message in problem(config())


@pytest.mark.parametrize(
    ("part", "make"),
    [("compute", clouds_of), ("identity_verifiers", identities_of), ("market", markets_of)],
)
def test_an_error_of_a_packages_function_names_the_provider(
    install: Install, part: str, make: Callable[[ClusterConfig], object]
) -> None:
    types = 'lambda: {"bench": (MachineType("garage", "bench", 1, "", 0, 2, 4), Decimal(1))}'
    imports = "from decimal import Decimal\nfrom det_controlplane.core.provision.offers import MachineType"
    module = code(catalog="CATALOG", **{part: "lambda sections: {}['GARAGE_FOLDER']"})
    install("my-garage", imports + module.replace("dict,", f"{types},"))
    raw = config(instance_type="bench")
    providers.register_used(raw)
    with pytest.raises(
        BadSettings, match="provider 'garage' cannot start: KeyError: 'GARAGE_FOLDER'"
    ):
        make(load_cluster(raw))


def test_clouds_of_the_control_plane_are_found_without_reading_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(providers, "entry_points", lambda group: pytest.fail("metadata was read"))
    providers.provider.cache_clear()
    providers.register_used({"resource_pools": [{"provider": {"type": "aws"}}]})
    assert {providers.provider(name).name for name in ("aws", "gcp")} == {"aws", "gcp"}


def test_a_package_cannot_replace_a_cloud_of_the_control_plane(install: Install) -> None:
    install("evil", code(name='"aws"'), name="aws")
    assert providers.provider("aws").compute.__module__ == "det_provisioner_aws"


@pytest.mark.usefixtures("garage")
def test_a_section_of_another_provider_has_its_types_and_prices() -> None:
    raw = config(instance_types=["bench", "lift"], capacity=["spot", "on-demand"], niceness=5)
    providers.register_used(raw)
    (pool,) = load_cluster(raw).resource_pools
    assert [
        (o.machine_type, o.capacity.value, o.slots, str(o.price_usd_hour)) for o in pool.offers
    ] == [
        ("bench", "spot", 1, "0.0500"),
        ("lift", "spot", 2, "0.1000"),
        ("bench", "on-demand", 1, "0.1000"),
        ("lift", "on-demand", 2, "0.2000"),
    ]


@pytest.mark.usefixtures("garage")
@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"instance_type": "bensh"}, "'bensh' is unknown; did you mean bench?"),
        ({}, "instance_type is required: a machine type of garage, such as bench, lift"),
        ({"instance_type": "bench", "region": "away"}, "'away' is unknown"),
        ({"instance_type": "bench", "zone": "home-z"}, "zones are written like home-a"),
        (
            {"instance_type": "bench", "niceness": 40},
            "niceness: input should be less than or equal to 19",
        ),
        (
            {"instance_type": "bench", "niceness": "high"},
            "niceness: input should be a valid integer",
        ),
        ({"instance_type": "bench", "nicenes": 1}, "nicenes"),
    ],
)
def test_wrong_keys_of_another_provider_are_refused(section: dict[str, Any], message: str) -> None:
    raw = config(**section)
    providers.register_used(raw)
    with pytest.raises(InvalidConfig) as refusal:
        load_cluster(raw)
    assert message in str(refusal.value).replace("niceness ", "niceness: ").replace(
        "instance_type: ", "instance_type "
    )


@pytest.mark.usefixtures("garage")
def test_machines_of_another_provider_prove_themselves_by_its_command() -> None:
    providers.register_used(config())
    script = user_data(Boot("c", "http://cluster", "p", "garage"))
    assert '"identity": "command"' in script
    assert "det_provider_garage.identity" in script
