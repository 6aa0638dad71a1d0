"""Reports of slow ranks."""

from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import text

from det_controlplane.core.trials.stragglers import Straggler
from det_controlplane.db.engine.database import Tx

# An agent counts only if the allocation has a container there: a report must not harm machines of others.
_ADD = text("""
    INSERT INTO stragglers (trial_id, allocation_id, agent_id, rank, slowdown, own_s, median_s, cause, steps_completed,
        recovered, reported_at)
    SELECT a.trial_id, a.id, coalesce((SELECT c.agent_id FROM containers c
            WHERE c.allocation_id = a.id AND c.epoch = a.epoch AND c.agent_id = :agent_id LIMIT 1), ''),
        :rank, :slowdown, :own_s, :median_s, :cause, :steps_completed, :recovered, :now
    FROM allocations a WHERE a.id = :allocation_id AND a.trial_id = :trial_id AND a.state <> 'TERMINATED'
    RETURNING agent_id, (SELECT pool FROM allocations WHERE id = :allocation_id) AS pool,
        (SELECT experiment_id FROM trials WHERE id = :trial_id) AS experiment_id,
        coalesce((SELECT NOT s.recovered FROM stragglers s WHERE s.allocation_id = :allocation_id AND s.rank = :rank
                  ORDER BY s.id DESC LIMIT 1), false) AS known
""")


@dataclass(frozen=True, slots=True)
class Added:
    agent_id: str
    pool: str
    experiment_id: int
    known: bool  # the rank was reported as slow before, and has not recovered


def add(
    tx: Tx, trial_id: int, allocation_id: str, straggler: Straggler, now: datetime
) -> Added | None:
    """Store a report. Return None if the allocation is not a live one of the trial."""
    values = {**asdict(straggler), "trial_id": trial_id, "allocation_id": allocation_id, "now": now}
    row = tx.execute(_ADD, values).first()
    return None if row is None else Added(*row)
