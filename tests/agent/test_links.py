"""The links between GPUs, from the output of `nvidia-smi topo -m`. The files follow the form of each driver's table."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from det_agent.links import parse, read_links
from det_agent.slots import SlotsUnavailable, discover
from det_controlplane.core.agent_protocol import Slot, SlotLink
from det_controlplane.core.placement.links import Link

from tests.support.topologies import dgx1_v100, nvswitch

_OUTPUTS = Path(__file__).parents[1] / "data" / "nvidia_smi"


def output(machine: str) -> str:
    return (_OUTPUTS / f"{machine}.txt").read_text()


def links_of(machine: str) -> tuple[Link, ...]:
    return tuple(Link(link.a, link.b, link.kind) for link in parse(output(machine)).links)


def gpus(count: int, kind: str = "GPU") -> list[Slot]:
    return [Slot(n, "cuda", f"{kind}-{n}", "a GPU") for n in range(count)]


def test_eight_gpus_behind_nvswitch_have_equal_links_and_two_nodes() -> None:
    assert links_of("h100_8_nvswitch") == nvswitch()
    assert dict(parse(output("h100_8_nvswitch")).numa_nodes) == {n: n // 4 for n in range(8)}


def test_the_mesh_of_a_dgx1_is_read_without_a_numa_column() -> None:
    assert links_of("dgx1_v100") == dgx1_v100()
    assert parse(output("dgx1_v100")).numa_nodes == ()


def test_four_gpus_on_pcie_share_a_host_bridge() -> None:
    table = parse(output("a10g_4_pcie"))
    assert Counter(link.kind for link in table.links) == {"PHB": 6}
    assert dict(table.numa_nodes) == dict.fromkeys(range(4), 0)


def test_a_machine_without_numa_nodes_shows_none() -> None:
    table = parse(output("rtx_2_nvbridge"))
    assert table.links == (SlotLink(0, 1, "NV4"),)
    assert table.numa_nodes == ()


def test_a_single_gpu_has_a_node_and_no_links() -> None:
    table = parse(output("t4_1"))
    assert (table.links, table.numa_nodes) == ((), ((0, 0),))


@pytest.mark.parametrize("text", ["", "No devices were found\n", "\tGPU0\tCPU Affinity\nGPU0\n"])
def test_other_output_gives_no_links(text: str) -> None:
    assert parse(text).links == ()


def test_only_links_between_slots_of_the_agent_are_reported() -> None:
    found = read_links([*gpus(8)[1:3], gpus(8)[7]], lambda _: output("dgx1_v100"))
    assert {(link.a, link.b): link.kind for link in found.links} == {
        (1, 2): "NV2", (1, 7): "SYS", (2, 7): "SYS",
    }  # fmt: skip


def test_slots_carry_their_numa_node() -> None:
    slots = gpus(8)
    found = read_links(slots, lambda _: output("h100_8_nvswitch"))
    assert [slot.numa_node for slot in found.with_nodes(slots)] == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("slots", [[Slot(0, "cpu", "cpu", "x")], gpus(2, "MIG"), []])
def test_machines_without_whole_gpus_are_not_queried(slots: list[Slot]) -> None:
    def query(command: Sequence[str]) -> str:
        raise AssertionError(command)

    assert read_links(slots, query).links == ()


def _nvidia(_: Sequence[str]) -> str:
    return "0, GPU-aaaa, A100\n1, GPU-bbbb, A100\n2, GPU-cccc, A100\n"


@pytest.mark.parametrize("excluded", ["1", "GPU-bbbb", "1, GPU-gone"])
def test_excluded_gpus_are_no_slots(excluded: str) -> None:
    slots = discover("cuda", query=_nvidia, exclude_gpus=excluded)
    assert [slot.id for slot in slots] == [0, 2]


def test_excluding_all_gpus_is_an_error_that_names_the_fix() -> None:
    with pytest.raises(SlotsUnavailable, match="slots: none"):
        discover("auto", query=_nvidia, exclude_gpus="0,1,2")
