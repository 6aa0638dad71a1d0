"""Update the table of machine types with GPUs in docs/reference/pools.md from the catalog.

`python -m scripts.machine_types --write` updates the page.
"""

import re
from pathlib import Path

from det_controlplane.core.provision import catalog_aws, catalog_gcp

from scripts.pages import update

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "pools.md"
_BLOCK = re.compile(r"<!-- types -->\n.*?<!-- end -->", re.DOTALL)


def table() -> str:
    """Return a table of every type with built-in GPUs: a row for each family, in the order of the catalog."""
    families: dict[str, dict[int, list[str]]] = {}
    for type, price in (*catalog_aws.types().values(), *catalog_gcp.types().values()):
        if type.slots:
            family, size = _parts(type.name)
            gpu = f"{type.accelerator.removeprefix('NVIDIA ')} ({type.accelerator_memory_gib} GiB)"
            sizes = families.setdefault(f"| `{family}` | {gpu} |", {}).setdefault(type.slots, [])
            sizes.append(f"`{size}` {price:.2f}")
    rows = [
        f"{row} "
        + "; ".join(f"{gpus}: {', '.join(sizes)}" for gpus, sizes in by_gpus.items())
        + " |"
        for row, by_gpus in families.items()
    ]
    return "\n".join(["| family | GPU | GPUs: sizes, $ an hour |", "|---|---|---|", *rows])


def _parts(name: str) -> tuple[str, str]:
    """Return the family and the size in the name of a machine type of AWS or Google Cloud."""
    family, _, size = name.rpartition("." if "." in name else "-")
    return family, size


def drawn(page: str) -> str:
    """Return the page with the table updated."""
    return _BLOCK.sub(f"<!-- types -->\n{table()}\n<!-- end -->", page)


if __name__ == "__main__":
    update(PAGE, drawn)
