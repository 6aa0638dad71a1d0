"""Draw the state diagrams of docs/concepts/lifecycle.md from the transition tables.

python -m scripts.lifecycle_drawings           print the current page
python -m scripts.lifecycle_drawings --write   update the page
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TypeVar

from det_controlplane.core.lifecycle import agent, checkpoint, experiment, machine, task
from det_controlplane.core.lifecycle.allocation import Exit, ExitKind
from det_controlplane.core.lifecycle.trial import TrialState, TrialView, after_exit

from scripts.pages import update

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "lifecycle.md"
_BLOCK = re.compile(r"<!-- (\w+) -->\n.*?<!-- end -->", re.DOTALL)
State = TypeVar("State", bound=Enum)
_TRIAL = TrialView(
    state=TrialState.ACTIVE, restarts=0, max_restarts=1, stopped_by_searcher=False, early_exit=None,
    parked=False, retries_cancelled=False, out_of_agents=False, pull_failures=0,
)  # fmt: skip
_SITUATIONS = {
    "running": _TRIAL,
    "no restarts left": replace(_TRIAL, restarts=1),
    "paused": replace(_TRIAL, state=TrialState.PAUSED),
    "stopped by the searcher": replace(
        _TRIAL, state=TrialState.STOPPING_COMPLETED, stopped_by_searcher=True
    ),
    "canceled": replace(_TRIAL, state=TrialState.STOPPING_CANCELED),
}


def diagram(table: Mapping[State, Iterable[State]]) -> str:
    """Return a Mermaid state diagram, in the order of the enum."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(table)).value}"]
    for state, following in table.items():
        order = list(type(state))
        targets = sorted(following, key=order.index)
        lines += [f"    {state.value} --> {target.value}" for target in targets]
        lines += [] if targets else [f"    {state.value} --> [*]"]
    return "\n".join([*lines, "```"])


def exits() -> str:
    """Return a table with a trial's state after each kind of exit, for each situation."""
    lines = [
        "| exit | " + " | ".join(_SITUATIONS) + " |",
        "|---" * (len(_SITUATIONS) + 1) + "|",
    ]
    for kind in ExitKind:
        cells = []
        for view in _SITUATIONS.values():
            after = after_exit(view, Exit(kind))
            cells.append(after.state.value + (", counted" if after.counts_as_restart else ""))
        lines.append(f"| {kind.value} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


DRAWINGS: dict[str, Callable[[], str]] = {
    "experiment": lambda: diagram(experiment.NEXT),
    "exits": exits,
    "generic": lambda: diagram(task.NEXT),
    "agent": lambda: diagram(agent.NEXT),
    "checkpoint": lambda: diagram(checkpoint.NEXT),
    "machine": lambda: diagram(machine.NEXT),
}


def drawn(page: str) -> str:
    """Return the page with each drawing between its marks updated."""
    return _BLOCK.sub(
        lambda block: f"<!-- {block[1]} -->\n{DRAWINGS[block[1]]()}\n<!-- end -->", page
    )


if __name__ == "__main__":
    update(PAGE, drawn)
