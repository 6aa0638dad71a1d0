"""Keep the numbers of trials and checkpoints of each experiment: lists counted them for each row before."""

import sqlalchemy as sa
from alembic import op

revision = "0131"
down_revision = "0130"

_COUNT_NEW_EXPERIMENT = """
    INSERT INTO trial_counts (experiment_id, project_id) VALUES (NEW.id, NEW.project_id);
    INSERT INTO checkpoint_counts (experiment_id) VALUES (NEW.id)"""
_MOVE = "UPDATE trial_counts SET project_id = NEW.project_id WHERE experiment_id = NEW.id"
_CHANGE_TRIALS = """
    UPDATE trial_counts c SET trials = c.trials {sign} x.trials
    FROM (SELECT experiment_id, count(*) AS trials FROM changed GROUP BY experiment_id) x
    WHERE c.experiment_id = x.experiment_id"""
_IS_STORED = "{row}.state IN ('COMPLETED', 'PARTIALLY_DELETED')"
_STORED_SIZE = f"CASE WHEN {_IS_STORED} THEN {{row}}.size ELSE 0 END"
_ADD_CHECKPOINT = f"""
    UPDATE checkpoint_counts SET complete = complete + (NEW.state = 'COMPLETED')::integer,
        size = size + {_STORED_SIZE.format(row="NEW")}
    WHERE experiment_id = NEW.experiment_id"""
_CHANGE_CHECKPOINT = f"""
    UPDATE checkpoint_counts SET
        complete = complete + (NEW.state = 'COMPLETED')::integer - (OLD.state = 'COMPLETED')::integer,
        size = size + {_STORED_SIZE.format(row="NEW")} - {_STORED_SIZE.format(row="OLD")}
    WHERE experiment_id = NEW.experiment_id"""
_REMOVE_CHECKPOINTS = f"""
    UPDATE checkpoint_counts c SET complete = c.complete - x.complete, size = c.size - x.size
    FROM (SELECT experiment_id, count(*) FILTER (WHERE state = 'COMPLETED') AS complete,
              coalesce(sum(size), 0)::bigint AS size
          FROM changed WHERE {_IS_STORED.format(row="changed")} GROUP BY experiment_id) x
    WHERE c.experiment_id = x.experiment_id"""


def _function(name: str, statements: str) -> None:
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {statements}; RETURN NULL; END $$"
    )


def _table(name: str, *columns: sa.Column[int]) -> None:
    experiment = sa.ForeignKey("experiments.id", ondelete="CASCADE")
    op.create_table(
        name, sa.Column("experiment_id", sa.Integer(), experiment, primary_key=True), *columns
    )


def _number(name: str, kind: type[sa.Integer]) -> "sa.Column[int]":
    return sa.Column(name, kind(), nullable=False, server_default=sa.text("0"))


def upgrade() -> None:
    project = sa.Column("project_id", sa.Integer(), nullable=False)
    _table("trial_counts", project, _number("trials", sa.Integer))
    _table("checkpoint_counts", _number("complete", sa.Integer), _number("size", sa.BigInteger))
    _create_triggers()
    # The triggers lock the tables until this revision ends, so that no row is missed.
    op.execute("""
        INSERT INTO trial_counts (experiment_id, project_id, trials)
        SELECT e.id, e.project_id, coalesce(x.trials, 0) FROM experiments e
        LEFT JOIN (SELECT experiment_id, count(*) AS trials FROM trials GROUP BY experiment_id) x ON x.experiment_id = e.id
    """)
    op.execute(f"""
        INSERT INTO checkpoint_counts (experiment_id, complete, size)
        SELECT e.id, coalesce(x.complete, 0), coalesce(x.size, 0) FROM experiments e
        LEFT JOIN (SELECT experiment_id, count(*) FILTER (WHERE state = 'COMPLETED') AS complete, sum(size) AS size
                   FROM checkpoints c WHERE {_IS_STORED.format(row="c")} GROUP BY experiment_id) x ON x.experiment_id = e.id
    """)
    op.create_index("trial_counts_in_order", "trial_counts", ["trials", "experiment_id"])
    op.create_index(
        "trial_counts_by_project", "trial_counts", ["project_id"], postgresql_include=["trials"]
    )
    for column in ("complete", "size"):
        name = f"checkpoint_counts_by_{column}"
        op.create_index(name, "checkpoint_counts", [column, "experiment_id"])
    # One scan of this index counts the experiments of a project and finds the last start.
    op.create_index(
        "experiments_of_project",
        "experiments",
        ["project_id", "id"],
        postgresql_include=["state", "started_at"],
    )
    op.drop_index("experiments_by_project", "experiments")


def _create_triggers() -> None:
    _function("count_new_experiment", _COUNT_NEW_EXPERIMENT)
    _function("move_counts_of_experiment", _MOVE)
    _function("count_added_trials", _CHANGE_TRIALS.format(sign="+"))
    _function("count_deleted_trials", _CHANGE_TRIALS.format(sign="-"))
    _function("count_added_checkpoint", _ADD_CHECKPOINT)
    _function("count_changed_checkpoint", _CHANGE_CHECKPOINT)
    _function("count_deleted_checkpoints", _REMOVE_CHECKPOINTS)
    each_row, statement = "FOR EACH ROW", "REFERENCING {rows} TABLE AS changed FOR EACH STATEMENT"
    is_moved = "WHEN (OLD.project_id IS DISTINCT FROM NEW.project_id)"
    is_changed = "WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.size IS DISTINCT FROM NEW.size)"
    for event, function, each in (
        ("INSERT ON experiments", "count_new_experiment", each_row),
        (
            "UPDATE OF project_id ON experiments",
            "move_counts_of_experiment",
            f"{each_row} {is_moved}",
        ),
        ("INSERT ON trials", "count_added_trials", statement.format(rows="NEW")),
        ("DELETE ON trials", "count_deleted_trials", statement.format(rows="OLD")),
        (
            "INSERT ON checkpoints",
            "count_added_checkpoint",
            f"{each_row} WHEN ({_IS_STORED.format(row='NEW')})",
        ),
        (
            "UPDATE OF state, size ON checkpoints",
            "count_changed_checkpoint",
            f"{each_row} {is_changed}",
        ),
        ("DELETE ON checkpoints", "count_deleted_checkpoints", statement.format(rows="OLD")),
    ):
        op.execute(f"CREATE TRIGGER {function} AFTER {event} {each} EXECUTE FUNCTION {function}()")
