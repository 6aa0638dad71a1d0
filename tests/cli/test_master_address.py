"""How an address is read."""

import pytest
from determined.common import master_address
from determined.common.failures import Failure


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("localhost", "http://localhost:8080"),
        ("10.0.0.1:9000", "http://10.0.0.1:9000"),
        ("http://det.example", "http://det.example:80"),
        ("https://det.example", "https://det.example:443"),
        ("https://det.example:8443/prefix/", "https://det.example:8443/prefix"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        (" DET.example ", "http://det.example:8080"),
    ],
)
def test_an_address_gets_its_scheme_and_port(written: str, meant: str) -> None:
    assert master_address.canonical(written) == meant


@pytest.mark.parametrize("written", ["ftp://x", "http://", "host:99999", "host:abc"])
def test_what_is_no_address_is_refused(written: str) -> None:
    with pytest.raises(Failure):
        master_address.canonical(written)


def test_the_option_comes_before_the_environment() -> None:
    env = {"DET_MASTER": "two", "DET_MASTER_ADDR": "three"}
    assert master_address.chosen("one", env) == "http://one:8080"
    assert master_address.chosen(None, env) == "http://two:8080"
    assert master_address.chosen(None, {"DET_MASTER_ADDR": "three"}) == "http://three:8080"
    assert master_address.chosen(None, {}) == "http://localhost:8080"
