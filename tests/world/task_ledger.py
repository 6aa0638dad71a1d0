"""Record the runs and ends of commands, notebooks and generic tasks, as programs and users saw them."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class TaskLedger:
    created: set[str] = field(default_factory=set)  # answered
    # Generic tasks with acknowledged kills: no descendant may live from then on.
    killed: set[str] = field(default_factory=set)
    # Seconds of the last acknowledged activity report of a notebook.
    worked_at: dict[str, float] = field(default_factory=dict)
