"""The slots of a machine, from the output of the vendors' tools."""

from collections.abc import Sequence

import pytest
from det_agent.slots import QueryTool, SlotsUnavailable, discover
from det_controlplane.core.agent_protocol import Slot

NVIDIA = "0, GPU-aaaa, NVIDIA A100-SXM4-40GB\n1, GPU-bbbb, NVIDIA A100-SXM4-40GB\n"
ROCM = """{"card1": {"Unique ID": "0xbb", "Card series": "MI250"},
 "card0": {"Unique ID": "0xaa", "Card Series": "MI250"}, "system": {"Driver version": "6"}}"""


def tools(**outputs: str) -> QueryTool:
    def query(command: Sequence[str]) -> str:
        return outputs.get(command[0].replace("-", "_"), "")

    return query


def test_nvidia_gpus_are_slots_with_uuid_and_brand() -> None:
    assert discover("auto", query=tools(nvidia_smi=NVIDIA)) == [
        Slot(0, "cuda", "GPU-aaaa", "NVIDIA A100-SXM4-40GB"),
        Slot(1, "cuda", "GPU-bbbb", "NVIDIA A100-SXM4-40GB"),
    ]


def test_amd_gpus_are_slots_in_the_order_of_their_cards() -> None:
    slots = discover("auto", query=tools(rocm_smi=ROCM))
    assert slots == [Slot(0, "rocm", "0xaa", "MI250"), Slot(1, "rocm", "0xbb", "MI250")]


def test_machine_without_gpus_is_one_slot() -> None:
    (slot,) = discover("auto", query=tools())
    assert (slot.id, slot.type) == (0, "cpu")
    assert slot.brand.endswith("cores")


@pytest.mark.parametrize("visible", ["1", "GPU-bbbb", " 1 ,"])
def test_only_visible_gpus_are_used_and_keep_their_numbers(visible: str) -> None:
    assert [s.id for s in discover("cuda", visible, tools(nvidia_smi=NVIDIA))] == [1]


def test_missing_visible_gpu_is_named() -> None:
    with pytest.raises(SlotsUnavailable, match="7"):
        discover("gpu", "0,7", tools(nvidia_smi=NVIDIA))


@pytest.mark.parametrize(("wanted", "tool"), [("cuda", "nvidia-smi"), ("rocm", "rocm-smi")])
def test_requested_but_missing_gpus_are_an_error(wanted: str, tool: str) -> None:
    with pytest.raises(SlotsUnavailable, match=tool):
        discover(wanted, query=tools())


def test_type_cpu_hides_gpus_and_type_none_hides_all_slots() -> None:
    assert [s.type for s in discover("cpu", query=tools(nvidia_smi=NVIDIA))] == ["cpu"]
    assert discover("none", query=tools(nvidia_smi=NVIDIA)) == []


def test_artificial_slots_look_like_cpu_slots() -> None:
    assert discover("artificial:2") == [
        Slot(0, "cpu", "artificial-0", "Artificial"),
        Slot(1, "cpu", "artificial-1", "Artificial"),
    ]


@pytest.mark.parametrize("wanted", ["artificial", "artificial:x", "artificial:0", "tpu", ""])
def test_rejects_invalid_slot_types(wanted: str) -> None:
    with pytest.raises(SlotsUnavailable):
        discover(wanted, query=tools())
