"""Start the files of tests that take longest first, so that no worker is left with one at the end.

A plugin of pytest. With xdist a worker takes whole files, in the order of collection.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Those that need an environment of scripts/ml-venv come when that may be there.
FIRST: tuple[str, ...] = ()


def place(path: Path) -> int:
    """Return where a file of tests comes: the lower, the earlier."""
    name = path.relative_to(ROOT / "tests").as_posix() if path.is_relative_to(ROOT) else ""
    return FIRST.index(name) if name in FIRST else len(FIRST)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.path))


def pytest_configure(config: pytest.Config) -> None:
    # xdist would start with the files that have most tests, which are not the longest.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
