"""Links of real machines, as the agent reads them."""

from itertools import combinations

from det_controlplane.core.placement.links import Link

# The NVLinks of a DGX-1 with V100: two quads, bridged by one link of each GPU.
_DGX1 = {
    (0, 1): "NV1", (0, 2): "NV1", (0, 3): "NV2", (0, 4): "NV2", (1, 2): "NV2", (1, 3): "NV1", (1, 5): "NV2",
    (2, 3): "NV2", (2, 6): "NV1", (3, 7): "NV1", (4, 5): "NV1", (4, 6): "NV1", (4, 7): "NV2", (5, 6): "NV2",
    (5, 7): "NV1", (6, 7): "NV2",
}  # fmt: skip


def dgx1_v100() -> tuple[Link, ...]:
    return tuple(Link(a, b, _DGX1.get((a, b), "SYS")) for a, b in combinations(range(8), 2))


def nvswitch(gpus: int = 8, kind: str = "NV18") -> tuple[Link, ...]:
    return tuple(Link(a, b, kind) for a, b in combinations(range(gpus), 2))


def pcie_tree(gpus: int = 8) -> tuple[Link, ...]:
    """Return the links of a machine with two sockets and PCIe switches with two GPUs each."""

    def kind(a: int, b: int) -> str:
        if a // 2 == b // 2:
            return "PIX"
        return "NODE" if a // (gpus // 2) == b // (gpus // 2) else "SYS"

    return tuple(Link(a, b, kind(a, b)) for a, b in combinations(range(gpus), 2))


def nvlink_pairs(gpus: int = 8) -> tuple[Link, ...]:
    """Return the links of a machine with NVLink bridges between neighbours, as workstations have."""
    tree = {(link.a, link.b): link.kind for link in pcie_tree(gpus)}
    return tuple(
        Link(a, b, "NV4" if b == a + 1 and a % 2 == 0 else k) for (a, b), k in tree.items()
    )
