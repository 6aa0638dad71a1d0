"""Fixtures with AWS, simulated by moto."""

from collections.abc import Iterator

import pytest

from tests.support.moto import moto_server


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    with moto_server() as url:
        yield url
