"""The states of experiments and tasks in their jobs, for the list of all work."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

_FUNCTIONS = """
CREATE FUNCTION note_work_of_experiment() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        UPDATE jobs SET name = NEW.name, work_state = NEW.state::text, work_ended_at = NEW.ended_at,
            work_archived = NEW.archived WHERE id = NEW.job_id;
        RETURN NULL;
    END $$;

CREATE FUNCTION note_work_of_task() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        UPDATE jobs SET work_ended_at = NEW.ended_at, work_state = coalesce(NEW.state::text,
            CASE WHEN NEW.ended_at IS NULL THEN 'ACTIVE' ELSE coalesce(NEW.outcome, 'COMPLETED') END)
        WHERE id = NEW.job_id;
        RETURN NULL;
    END $$;
"""
_IS_LISTED = "NEW.trial_id IS NULL AND NEW.kind NOT IN ('TRIAL', 'CHECKPOINT_GC')"
_TRIGGERS = f"""
CREATE TRIGGER experiments_note_work AFTER INSERT ON experiments
    FOR EACH ROW EXECUTE FUNCTION note_work_of_experiment();

CREATE TRIGGER experiments_note_change_of_work AFTER UPDATE OF name, state, archived, ended_at ON experiments
    FOR EACH ROW WHEN ((OLD.name, OLD.state, OLD.archived, OLD.ended_at)
        IS DISTINCT FROM (NEW.name, NEW.state, NEW.archived, NEW.ended_at))
    EXECUTE FUNCTION note_work_of_experiment();

CREATE TRIGGER tasks_note_work AFTER INSERT ON tasks
    FOR EACH ROW WHEN ({_IS_LISTED}) EXECUTE FUNCTION note_work_of_task();

CREATE TRIGGER tasks_note_change_of_work AFTER UPDATE OF state, ended_at, outcome ON tasks
    FOR EACH ROW WHEN ({_IS_LISTED} AND (OLD.state, OLD.ended_at, OLD.outcome)
        IS DISTINCT FROM (NEW.state, NEW.ended_at, NEW.outcome))
    EXECUTE FUNCTION note_work_of_task();
"""


def upgrade() -> None:
    op.add_column("jobs", sa.Column("work_state", sa.Text))
    op.add_column("jobs", sa.Column("work_ended_at", sa.DateTime(timezone=True)))
    archived = sa.Column("work_archived", sa.Boolean, server_default=sa.false(), nullable=False)
    op.add_column("jobs", archived)
    op.add_column("tasks", sa.Column("outcome", sa.Text))
    op.execute(_FUNCTIONS)
    op.execute(_TRIGGERS)
