"""Projects offer the names of hyperparameters, metadata and metrics that their runs have reported."""

from det_controlplane.db.experiments import offered_names
from det_controlplane.db.experiments.table_pages import TableScope
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, running, validate

_NESTED = SINGLE + "\nhyperparameters: {optimizer: {lr: 0.1, name: adam}, depth: 3}"
_MOVE = text("UPDATE experiments SET project_id = :project WHERE id = :id")
_PROJECT = text("""
    INSERT INTO projects (workspace_id, name, key, user_id) VALUES (1, 'other', 'OTHER', 1) RETURNING id
""")
_SET_METADATA = text("UPDATE trials SET metadata = cast(:metadata AS jsonb) WHERE id = :id")
_SMALLEST = text("SELECT path, smallest FROM offered_names WHERE kind = 'metadata' ORDER BY path")


def offered(ctx: Context, project_id: int) -> dict[str, dict[str, str]]:
    """Return the offered names of a project; 0: of all projects."""
    place = TableScope(project_id or None, None)
    with ctx.db.begin() as tx:
        return {
            "hparams": dict(offered_names.hyperparameters(tx, place)),
            "metadata": dict(offered_names.metadata(tx, place)),
            "metrics": {f"{m.group}.{m.name}": m.type for m in offered_names.metrics(tx, place)},
        }


def set_metadata(ctx: Context, metadata: str) -> None:
    with ctx.db.begin() as tx:
        tx.execute(_SET_METADATA, {"id": 1, "metadata": metadata})


def test_offers_leaves_of_nested_hyperparameters(ctx: Context) -> None:
    creation.create(ctx, OWNER, creation.Submission(config=_NESTED))
    tick.run(ctx)
    names = {"depth": "number", "optimizer.lr": "number", "optimizer.name": "string"}
    assert offered(ctx, 1)["hparams"] == names
    assert offered(ctx, 0)["hparams"] == names


def test_offers_metrics_that_trials_reported(ctx: Context) -> None:
    running(ctx, SINGLE)
    validate(ctx, 1, 1, 0.5)
    assert offered(ctx, 1)["metrics"]["validation.loss"] == "number"


def test_offers_metadata_names_including_removed_ones(ctx: Context) -> None:
    running(ctx, SINGLE)
    set_metadata(ctx, '{"team": {"name": "vision"}, "tries": 3}')
    set_metadata(ctx, '{"tries": "many"}')
    assert offered(ctx, 1)["metadata"] == {"team.name": "string", "tries": "string"}


def test_project_offers_names_of_experiments_that_are_moved_to_it(ctx: Context) -> None:
    running(ctx, SINGLE)
    validate(ctx, 1, 1, 0.5)
    set_metadata(ctx, '{"tries": 3}')
    with ctx.db.begin() as tx:
        other = tx.execute(_PROJECT).scalar_one()
        before = offered(ctx, other)
        tx.execute(_MOVE, {"project": other, "id": 1})
    assert before == {"hparams": {}, "metadata": {}, "metrics": {}}
    assert offered(ctx, other) == offered(ctx, 1)


def test_remembers_the_smallest_document_of_a_name(ctx: Context) -> None:
    running(ctx, SINGLE)
    for metadata in ('{"a": 1, "b": 1, "c": 1}', '{"a": 1}', '{"a": 1, "b": 1}'):
        set_metadata(ctx, metadata)
    with ctx.db.begin() as tx:
        assert [tuple(row) for row in tx.execute(_SMALLEST)] == [("a", 1), ("b", 2), ("c", 3)]


def test_reports_of_known_names_add_no_rows(ctx: Context) -> None:
    running(ctx, SINGLE)
    validate(ctx, 1, 1, 0.5)
    before = offered(ctx, 1)
    validate(ctx, 1, 2, 0.4)
    assert offered(ctx, 1) == before
