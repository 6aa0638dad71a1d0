"""The number of repetitions: `make test-all` plays more worlds and examples than `make test`."""

import os

from tests.support.skips import HEAVY_VARIABLE


def often(usually: int, thoroughly: int) -> int:
    return thoroughly if os.environ.get(HEAVY_VARIABLE) == "1" else usually
