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
    """Return a table of every type with built-in GPUs, in the order of the catalog."""
    lines = ["| type | GPUs | vCPUs | GiB | $ an hour |", "|---|---|---|---|---|"]
    for type, price in (*catalog_aws.types().values(), *catalog_gcp.types().values()):
        if type.slots:
            gpu = type.accelerator.removeprefix("NVIDIA ")
            gpus = f"{type.slots} {gpu} ({type.accelerator_memory_gib} GiB)"
            size = f"{type.vcpus} | {type.memory_gib}"
            lines.append(f"| `{type.name}` | {gpus} | {size} | {price:.2f} |")
    return "\n".join(lines)


def drawn(page: str) -> str:
    """Return the page with the table updated."""
    return _BLOCK.sub(f"<!-- types -->\n{table()}\n<!-- end -->", page)


if __name__ == "__main__":
    update(PAGE, drawn)
