"""Addresses of clusters: scheme, port and precedence."""

import pytest
from determined.common import master_address
from determined.common.failures import Failure


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("localhost", "http://localhost:8080"),
        ("10.0.0.1:9000", "http://10.0.0.1:9000"),
        ("http://det.example", "http://det.example:80"),
        ("https://det.example", "https://det.example:443"),
        ("https://det.example:8443/prefix/", "https://det.example:8443/prefix"),
        ("http://det.example:9000/det/", "http://det.example:9000"),
        ("https://det.example/prefix/det", "https://det.example:443/prefix"),
        ("https://det.example/pre-det", "https://det.example:443/pre-det"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        (" DET.example ", "http://det.example:8080"),
    ],
)
def test_address_gets_scheme_and_port(address: str, url: str) -> None:
    assert master_address.canonical(address) == url


@pytest.mark.parametrize("address", ["ftp://x", "http://", "host:99999", "host:abc"])
def test_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(Failure):
        master_address.canonical(address)


def test_option_has_precedence_over_environment() -> None:
    env = {"DET_MASTER": "two", "DET_MASTER_ADDR": "three"}
    assert master_address.chosen("one", env) == "http://one:8080"
    assert master_address.chosen(None, env) == "http://two:8080"
    assert master_address.chosen(None, {"DET_MASTER_ADDR": "three"}) == "http://three:8080"
    assert master_address.chosen(None, {}) == "http://localhost:8080"
