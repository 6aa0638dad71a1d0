"""Pools that pages show are pools that a cluster accepts, and that can rent machines."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from det_controlplane.core.config.cluster import load_cluster

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("guides/machines.md", "reference/pools.md")
BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def shown() -> list[tuple[str, Any]]:
    blocks = [(page, text) for page in PAGES for text in BLOCK.findall((DOCS / page).read_text())]
    return [(page, yaml.safe_load(text)) for page, text in blocks if "resource_pools" in text]


SHOWN = shown()


@pytest.mark.parametrize(
    ("page", "config"), SHOWN, ids=[f"{page}-{n}" for n, (page, _) in enumerate(SHOWN)]
)
def test_pools_of_a_page_have_offers(page: str, config: dict[str, Any]) -> None:
    config_of_pools = load_cluster(
        {**config, "checkpoint_storage": {"type": "directory", "container_path": "/c"}}
    )
    assert all(pool.offers for pool in config_of_pools.resource_pools)


def test_both_pages_show_pools() -> None:
    assert {page for page, _ in SHOWN} == set(PAGES)
