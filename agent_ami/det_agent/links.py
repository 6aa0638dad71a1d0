"""Read how the GPUs of this machine are linked, and the NUMA node of each, from `nvidia-smi topo -m`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from det_controlplane.core.agent_protocol import Slot, SlotLink

from det_agent.slots import QueryTool, run_tool

_COMMAND = ("nvidia-smi", "topo", "-m")
_GPU = re.compile(r"GPU(\d+)")
_KIND = re.compile(r"NV\d+|PIX|PXB|PHB|NODE|SYS")
# nvidia-smi underlines and separates the header with escape sequences, also in a pipe.
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_CPU_COLUMN, _NUMA_COLUMN = "CPU Affinity", "NUMA Affinity"


@dataclass(frozen=True)
class GpuLinks:
    """The links between slots, and the NUMA node of each slot on machines with several nodes."""

    links: tuple[SlotLink, ...] = ()
    numa_nodes: tuple[tuple[int, int], ...] = ()  # slot, node

    def with_nodes(self, slots: Sequence[Slot]) -> tuple[Slot, ...]:
        """Return the slots with their NUMA nodes."""
        nodes = dict(self.numa_nodes)
        return tuple(replace(slot, numa_node=nodes.get(slot.id)) for slot in slots)


def read_links(slots: Sequence[Slot], query: QueryTool = run_tool) -> GpuLinks:
    """Return the links between these slots. They are empty without NVIDIA GPUs and for instances of MIG."""
    ids = [slot.id for slot in slots if slot.type == "cuda"]
    if not ids or any(slot.uuid.startswith("MIG-") for slot in slots):
        return GpuLinks()
    table = parse(query(_COMMAND))
    return GpuLinks(
        tuple(link for link in table.links if link.a in ids and link.b in ids),
        tuple((slot, node) for slot, node in table.numa_nodes if slot in ids),
    )


def parse(text: str) -> GpuLinks:
    """Read the matrix. Rows that are not of a GPU, such as NICs and the legend, are ignored."""
    lines = [_ESCAPE.sub("", line) for line in text.splitlines()]
    header = next((line for line in lines if _CPU_COLUMN in line), "")
    columns = _columns(header)
    links, nodes = [], []
    for line in lines:
        cells = [cell.strip() for cell in line.split("\t")]
        row = _GPU.fullmatch(cells[0])
        if row is None or line == header or not columns:
            continue
        # The cell of a column follows after the name of the row.
        values = dict(zip(columns, cells[1:], strict=False))
        a = int(row[1])
        links += [
            SlotLink(a, int(gpu[1]), values[name])
            for name in columns
            if (gpu := _GPU.fullmatch(name)) and int(gpu[1]) > a and _KIND.fullmatch(values[name])
        ]
        node = re.match(r"\d+", values.get(_NUMA_COLUMN, ""))
        if node is not None:
            nodes.append((a, int(node[0])))
    return GpuLinks(tuple(links), tuple(nodes))


def _columns(header: str) -> list[str]:
    return [cell.strip() for cell in header.split("\t")][1:]
