"""How much of the same is tried: `make test-all` plays more worlds and examples than `make test` does."""

import os

from tests.support.skips import HEAVY_VARIABLE


def often(usually: int, thoroughly: int) -> int:
    return thoroughly if os.environ.get(HEAVY_VARIABLE) == "1" else usually
