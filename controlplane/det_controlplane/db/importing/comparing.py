"""Figures of an imported cluster and of its source, which must be equal."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.core.importing.ids import Ids
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.importing.source import Source


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as SQL on both sides. `{trials}` and `{offset…}` are filled in."""

    name: str
    there: str
    here: str
    table: str = ""  # that a source may lack

    @property
    def of_logs(self) -> bool:
        return self.table == "task_logs"


_IMPORTED = "id > {experiments} AND id <= {experiments} + {last_experiments}"
_OF_TRIALS = f"trial_id IN (SELECT id FROM trials WHERE experiment_id IN (SELECT id FROM experiments WHERE {_IMPORTED}))"
FIGURES = (
    Figure("experiments", "SELECT count(*) FROM experiments", f"SELECT count(*) FROM experiments WHERE {_IMPORTED}"),
    Figure(
        "bytes of model definitions", "SELECT coalesce(sum(length(model_definition)), 0) FROM experiments",
        "SELECT coalesce(sum(c.size), 0) FROM contexts c WHERE EXISTS (SELECT FROM experiments"
        f" WHERE context_id = c.id AND {_IMPORTED})",
    ),
    Figure(
        "trials", "SELECT count(*) FROM {trials_table}",
        f"SELECT count(*) FROM trials WHERE id <= {{trials}} + {{last_trials}} AND experiment_id IN (SELECT id FROM experiments WHERE {_IMPORTED})",
    ),
    Figure(
        "reports of metrics",
        "SELECT count(*) FROM {metrics_table} m WHERE jsonb_typeof(metrics) = 'object'",
        "SELECT count(*) FROM metrics WHERE id > {metrics} AND id <= {metrics} + {last_metrics}",
    ),
    Figure(
        "sum of their batches",
        "SELECT coalesce(sum(total_batches), 0) FROM {metrics_table} m WHERE jsonb_typeof(metrics) = 'object'",
        "SELECT coalesce(sum(total_batches), 0) FROM metrics WHERE id > {metrics} AND id <= {metrics} + {last_metrics}",
    ),
    Figure(
        "checkpoints of trials",
        "SELECT count(*) FROM checkpoints_v2 c WHERE EXISTS (SELECT FROM {link_table} l WHERE l.task_id = c.task_id)",
        f"SELECT count(*) FROM checkpoints WHERE {_OF_TRIALS}",
    ),
    Figure(
        "bytes of their files",
        "SELECT coalesce(sum(size), 0) FROM checkpoints_v2 c WHERE EXISTS (SELECT FROM {link_table} l WHERE l.task_id = c.task_id)",
        f"SELECT coalesce(sum(size), 0) FROM checkpoints WHERE {_OF_TRIALS}",
    ),
    Figure(
        "runs of trials",
        "SELECT count(*) FROM allocations a WHERE EXISTS (SELECT FROM {link_table} l WHERE l.task_id = a.task_id)",
        f"SELECT count(*) FROM allocations WHERE requested_at <= (SELECT max(began_at) FROM imports) AND {_OF_TRIALS}",
    ),
    Figure(
        "lines of their logs",
        "SELECT count(*) FROM task_logs a WHERE EXISTS (SELECT FROM {link_table} l WHERE l.task_id = a.task_id)",
        f"SELECT count(*) FROM task_logs WHERE task_id IN (SELECT task_id FROM trials WHERE experiment_id IN (SELECT id FROM experiments WHERE {_IMPORTED}))",
        table="task_logs",
    ),
    Figure(
        "users", "SELECT count(*) FROM users",
        "SELECT count(*) + {merged_users} FROM users WHERE id > {users} + 2 AND id <= {users} + {last_users}",
    ),
    Figure("models", "SELECT count(*) FROM models", "SELECT count(*) FROM models WHERE id > {models} AND id <= {models} + {last_models}", "models"),
    Figure(
        "model versions", "SELECT count(*) FROM model_versions",
        "SELECT count(*) FROM model_versions WHERE id > {model_versions} AND id <= {model_versions} + {last_model_versions}",
        "model_versions",
    ),
)  # fmt: skip


def value_there(source: Source, figure: Figure) -> str:
    return str(source.scalar(figure.there.format(**source_names(source))))


def source_names(source: Source) -> dict[str, str]:
    return {
        "trials_table": source.trials, "metrics_table": source.metrics, "link_table": source.task_of_trial[0],
    }  # fmt: skip


def value_here(tx: Tx, figure: Figure, ids: Ids, last: dict[str, int]) -> str:
    numbers = {
        **ids.offsets,
        **{f"last_{kind}": id for kind, id in last.items()},
        "merged_users": len(ids.merged.get("users", {})),
    }
    return str(tx.execute(text(figure.here.format(**numbers))).scalar_one())


def sample_there(source: Source, count: int) -> list[dict[str, Any]]:
    """Return reports of metrics, spread over all of them by their ids."""
    rows = source.query(
        f"""SELECT to_jsonb(m) FROM (SELECT min(id) AS first, max(id) AS last FROM {source.metrics} m) r
            JOIN LATERAL (SELECT * FROM generate_series(r.first, r.last, greatest(1, (r.last - r.first) / :count)) AS id) s ON true
            JOIN {source.metrics} m ON m.id = s.id WHERE jsonb_typeof(m.metrics) = 'object'""",
        count=count,
    )
    return [row[0] for row in rows]


def is_stored(tx: Tx, ids: Ids, report: dict[str, Any]) -> bool:
    """Return whether a report is stored with the same metrics."""
    metrics = report["metrics"]
    values = metrics.get("avg_metrics") or metrics.get("validation_metrics") or metrics
    found = tx.execute(
        text(
            "SELECT 1 FROM metrics WHERE id = :id AND trial_id = :trial AND metrics = cast(:metrics AS jsonb)"
            " AND total_batches IS NOT DISTINCT FROM :steps"
        ),
        {
            "id": report["id"] + ids.offsets["metrics"], "trial": report["trial_id"] + ids.offsets["trials"],
            "metrics": as_json(values), "steps": report["total_batches"],
        },
    )  # fmt: skip
    return found.first() is not None
