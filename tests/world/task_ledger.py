"""Record the runs and ends of commands, notebooks and generic tasks, as programs and users saw them."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class TaskLedger:
    created: set[str] = field(default_factory=set)  # answered
    # Generic tasks whose kill was answered: nothing below them lives from then on.
    killed: set[str] = field(default_factory=set)
    # Seconds at which the last report was sent, of those that were answered, that a notebook works.
    worked_at: dict[str, float] = field(default_factory=dict)
