"""Discover the slots of this machine: GPUs with their vendor's tool, the CPU, or artificial slots for tests."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Callable, Sequence

from det_controlplane.core.agent_protocol import Slot, SlotType

QueryTool = Callable[[Sequence[str]], str]
TOOL_TIMEOUT_S = 60


class SlotsUnavailable(Exception):
    """The requested slots do not exist on this machine."""


def discover(
    wanted: str,
    visible_gpus: str = "",
    query: QueryTool | None = None,
    *,
    exclude_gpus: str = "",
) -> list[Slot]:
    """Return the slots of a kind: auto, none, cpu, cuda (or gpu), rocm, artificial:N.

    Excluded GPUs may be missing, because a faulty GPU may not be listed any more."""
    slots = _discover(wanted, visible_gpus, query)
    excluded = _names(exclude_gpus)
    used = [slot for slot in slots if slot.type == "cpu" or not _is_named(slot, excluded)]
    if slots and not used:
        raise SlotsUnavailable("exclude_gpus names all GPUs of this machine; use slots: none")
    return used


def _discover(wanted: str, visible_gpus: str, query: QueryTool | None) -> list[Slot]:
    run = query or run_tool
    kind, _, count = wanted.partition(":")
    if kind == "artificial":
        return artificial(count)
    if kind == "none":
        return []
    if kind == "cpu":
        return [_cpu()]
    if kind in ("cuda", "gpu"):
        return _require_slots(kind, "nvidia-smi", _visible(nvidia(run), visible_gpus))
    if kind == "rocm":
        return _require_slots(kind, "rocm-smi", _visible(rocm(run), visible_gpus))
    if kind == "auto":
        gpus = nvidia(run) or rocm(run)
        return _visible(gpus, visible_gpus) if gpus else [_cpu()]
    raise SlotsUnavailable(
        f"slots {wanted!r} is not one of auto, none, cpu, cuda, rocm, artificial:N"
    )


def artificial(count: str) -> list[Slot]:
    if not count.isdigit() or int(count) < 1:
        raise SlotsUnavailable(
            f"artificial:{count} needs a number of slots, for example artificial:4"
        )
    return [Slot(i, "cpu", f"artificial-{i}", "Artificial") for i in range(int(count))]


def nvidia(query: QueryTool) -> list[Slot]:
    table = query(["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"])
    rows = [[cell.strip() for cell in line.split(",", 2)] for line in table.splitlines()]
    return [
        Slot(int(row[0]), "cuda", row[1], row[2])
        for row in rows
        if len(row) == 3 and row[0].isdigit()
    ]


def rocm(query: QueryTool) -> list[Slot]:
    answer = query(["rocm-smi", "--showuniqueid", "--showproductname", "--json"])
    try:
        cards = json.loads(answer or "{}")
    except ValueError:
        return []
    slots = []
    for name, card in sorted(cards.items(), key=lambda item: _card_number(item[0])):
        if name.startswith("card") and isinstance(card, dict):
            fields = {key.lower(): str(value) for key, value in card.items()}
            brand = fields.get("card series") or fields.get("card model") or "AMD GPU"
            number = _card_number(name)
            slots.append(Slot(number, "rocm", fields.get("unique id", f"rocm-{number}"), brand))
    return slots


def _card_number(name: str) -> int:
    digits = re.sub(r"\D", "", name)
    return int(digits) if digits else -1


def _visible(slots: list[Slot], visible_gpus: str) -> list[Slot]:
    names = _names(visible_gpus)
    if not names:
        return slots
    unknown = [n for n in names if not any(n in (str(s.id), s.uuid) for s in slots)]
    if unknown:
        raise SlotsUnavailable(f"visible_gpus names {', '.join(unknown)}, which this machine lacks")
    return [slot for slot in slots if _is_named(slot, names)]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _is_named(slot: Slot, names: Sequence[str]) -> bool:
    return str(slot.id) in names or slot.uuid in names


def _require_slots(kind: SlotType | str, tool: str, slots: list[Slot]) -> list[Slot]:
    if not slots:
        raise SlotsUnavailable(
            f"slots {kind}: {tool} shows no GPU here; install the driver, or use --slots auto"
        )
    return slots


def _cpu() -> Slot:
    cores = os.cpu_count() or 1
    return Slot(0, "cpu", "cpu", f"{_cpu_model()} x {cores} cores")


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as f:
            model = re.search(r"^model name\s*:\s*(.+)$", f.read(), re.MULTILINE)
    except OSError:
        model = None
    return model.group(1) if model else platform.processor() or platform.machine()


def run_tool(command: Sequence[str]) -> str:
    """Return the output of a vendor's tool, or '' if it is missing or fails."""
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout if result.returncode == 0 else ""
