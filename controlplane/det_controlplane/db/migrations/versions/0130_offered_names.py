"""Keep the names of hyperparameters, metadata and metrics of each project: lists of columns read every trial before."""

import sqlalchemy as sa
from alembic import op

revision = "0130"
down_revision = "0129"

_LEAVES = """
    CREATE FUNCTION json_leaves(document jsonb) RETURNS TABLE (path text, type text) LANGUAGE sql IMMUTABLE AS $$
        WITH RECURSIVE leaf (path, value) AS (
            SELECT h.key, h.value
            FROM jsonb_each(CASE WHEN jsonb_typeof(document) = 'object' THEN document ELSE '{}'::jsonb END) h (key, value)
            UNION ALL SELECT leaf.path || '.' || h.key, h.value FROM leaf,
                jsonb_each(CASE WHEN jsonb_typeof(leaf.value) = 'object' THEN leaf.value ELSE '{}'::jsonb END) h (key, value))
        SELECT leaf.path, jsonb_typeof(leaf.value) FROM leaf WHERE jsonb_typeof(leaf.value) NOT IN ('object', 'null')
    $$"""
# Longer names do not fit into an index.
_OFFER = """
    INSERT INTO offered_names AS o (project_id, kind, path, type, smallest)
    SELECT project_id, kind, path, type, min(size) FROM ({documents}) d
    WHERE octet_length(path) <= 2000 AND NOT EXISTS (
        SELECT FROM offered_names k WHERE k.project_id = d.project_id AND k.kind = d.kind AND k.path = d.path
            AND k.type = d.type AND k.smallest <= d.size)
    GROUP BY project_id, kind, path, type ORDER BY project_id, kind, path, type
    ON CONFLICT (project_id, kind, path, type) DO UPDATE SET smallest = excluded.smallest
        WHERE excluded.smallest < o.smallest"""
_OF_TRIALS = """
    SELECT e.project_id, '{kind}' AS kind, l.path, l.type, count(*) OVER (PARTITION BY t.id)::integer AS size
    FROM {trials} t JOIN experiments e ON e.id = t.experiment_id, json_leaves(t.{document}::jsonb) l
    WHERE t.{document} IS NOT NULL"""
_OF_METRICS = """
    SELECT e.project_id, 'metric' AS kind, concat(g.key, '.', n.key) AS path, n.value AS type,
        count(*) OVER (PARTITION BY m.experiment_id)::integer AS size
    FROM {names} m JOIN experiments e ON e.id = m.experiment_id, jsonb_each(m.names) g, jsonb_each_text(g.value) n"""


def _of_trials(trials: str) -> str:
    hparams = _OF_TRIALS.format(kind="hparam", trials=trials, document="hparams")
    return f"{hparams} UNION ALL {_OF_TRIALS.format(kind='metadata', trials=trials, document='metadata')}"


def _function(name: str, documents: str) -> None:
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" {_OFFER.format(documents=documents)}; RETURN NULL; END $$"
    )


def upgrade() -> None:
    op.create_table(
        "offered_names",
        sa.Column(
            "project_id",
            sa.Integer(),
            sa.ForeignKey("projects.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("path", sa.Text(), primary_key=True),
        sa.Column("type", sa.Text(), primary_key=True),
        sa.Column("smallest", sa.Integer(), nullable=False),
    )
    op.create_index(
        "offered_names_in_order", "offered_names", ["kind", "project_id", "smallest", "path"]
    )
    op.execute(_LEAVES)
    _function("offer_names_of_trials", _of_trials("added"))
    _function("offer_names_of_metrics", _OF_METRICS.format(names="added"))
    moved = "(SELECT * FROM trials WHERE experiment_id = NEW.id)"
    names = "(SELECT * FROM metric_names WHERE experiment_id = NEW.id)"
    _function(
        "offer_names_of_moved", f"{_of_trials(moved)} UNION ALL {_OF_METRICS.format(names=names)}"
    )
    changed = "(SELECT NEW.id, NEW.experiment_id, NEW.hparams, NEW.metadata)"
    _function("offer_names_of_trial", _of_trials(changed))
    # The triggers lock the tables until this revision ends, so that no name is missed.
    for table, event in (
        ("trials", "INSERT"),
        ("metric_names", "INSERT"),
        ("metric_names", "UPDATE"),
    ):
        function = "offer_names_of_trials" if table == "trials" else "offer_names_of_metrics"
        op.execute(
            f"CREATE TRIGGER {table}_offer_names_on_{event.lower()} AFTER {event} ON {table}"
            f" REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
        )
    # Reports update trials without these columns, and fire no trigger.
    op.execute(
        "CREATE TRIGGER trials_offer_names_on_update AFTER UPDATE OF hparams, metadata ON trials FOR EACH ROW"
        " EXECUTE FUNCTION offer_names_of_trial()"
    )
    op.execute(
        "CREATE TRIGGER experiments_offer_names AFTER UPDATE OF project_id ON experiments FOR EACH ROW"
        " WHEN (OLD.project_id IS DISTINCT FROM NEW.project_id) EXECUTE FUNCTION offer_names_of_moved()"
    )
    op.execute(
        _OFFER.format(
            documents=f"{_of_trials('trials')} UNION ALL {_OF_METRICS.format(names='metric_names')}"
        )
    )
