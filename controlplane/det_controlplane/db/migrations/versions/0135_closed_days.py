"""Keep sums of usage and costs for days that have ended, and note changes of such days."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0135"
down_revision = "0134"

_NOTE = """
    CREATE FUNCTION note_change_of_days(after timestamptz, before timestamptz) RETURNS void LANGUAGE sql AS $$
        INSERT INTO changed_days (day) SELECT c.day FROM closed_days c
        WHERE c.day > after - interval '24 hours' AND c.day < before
    $$"""
# An end that was unknown counted until now, so a new end changes nothing before it.
_SPAN = """
    CREATE FUNCTION note_change_of_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'INSERT' THEN
            PERFORM note_change_of_days(NEW.{start}, coalesce(NEW.ended_at, 'infinity'));
        ELSIF TG_OP = 'DELETE' THEN
            IF NOT {kept} THEN
                PERFORM note_change_of_days(OLD.{start}, coalesce(OLD.ended_at, 'infinity'));
            END IF;
        ELSIF {same} THEN
            PERFORM note_change_of_days(least(coalesce(OLD.ended_at, 'infinity'), coalesce(NEW.ended_at, 'infinity')),
                greatest(coalesce(OLD.ended_at, 'infinity'), coalesce(NEW.ended_at, 'infinity')));
        ELSE
            PERFORM note_change_of_days(least(OLD.{start}, NEW.{start}), 'infinity');
        END IF;
        RETURN NULL;
    END $$"""
_TRIGGER = """
    CREATE TRIGGER {table}_note_{event} AFTER {when} ON {table} FOR EACH ROW WHEN ({condition})
    EXECUTE FUNCTION note_change_of_{name}()"""
# Labels and workspaces are those of now, also in reports about the past.
_OF_JOBS = """
    CREATE FUNCTION note_change_of_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM note_change_of_days(x.after, x.before) FROM (
            SELECT min(a.requested_at) AS after, max(coalesce(a.ended_at, 'infinity')) AS before FROM allocations a {join}) x
        WHERE x.after IS NOT NULL;
        RETURN NULL;
    END $$"""
_JOINS = {
    "jobs": ("user_id, workspace_id", "WHERE a.job_id = NEW.id"),
    "experiments": ("labels, project_id", "WHERE a.job_id = NEW.job_id"),
    "projects": (
        "workspace_id",
        "JOIN experiments e ON e.job_id = a.job_id WHERE e.project_id = NEW.id",
    ),
}


def _note(table: str, start: str, columns: tuple[str, ...], kept: str, name: str) -> None:
    def row(of: str) -> str:
        return "(" + ", ".join(f"{of}.{column}" for column in (start, *columns)) + ")"

    same = f"{row('OLD')} IS NOT DISTINCT FROM {row('NEW')}"
    op.execute(_SPAN.format(name=name, start=start, kept=kept, same=same))
    counted = (
        f"{row('OLD')} IS DISTINCT FROM {row('NEW')} OR OLD.ended_at IS DISTINCT FROM NEW.ended_at"
    )
    for event, when, condition in (
        ("insert", "INSERT", f"NEW.{start} IS NOT NULL"),
        ("delete", "DELETE", f"OLD.{start} IS NOT NULL"),
        (
            "update",
            f"UPDATE OF {', '.join((start, 'ended_at', *columns))}",
            f"(OLD.{start} IS NOT NULL OR NEW.{start} IS NOT NULL) AND ({counted})",
        ),
    ):
        op.execute(
            _TRIGGER.format(table=table, event=event, when=when, condition=condition, name=name)
        )


def upgrade() -> None:
    time = sa.DateTime(timezone=True)
    op.create_table(
        "closed_days",
        sa.Column("day", time, primary_key=True),
        sa.Column("fence", sa.BigInteger()),
        sa.Column("summed_at", time),
    )
    op.create_table(
        "changed_days",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), primary_key=True),
        sa.Column("day", time, nullable=False),
    )
    op.create_table(
        "usage_of_days",
        sa.Column("day", time, nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("labels", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("seconds", sa.Numeric(), nullable=False),
    )
    op.create_table(
        "work_costs_of_days",
        sa.Column("day", time, nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("workspace_id", sa.Integer(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("labels", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("slot_seconds", sa.Numeric(), nullable=False),
        sa.Column("usd", sa.Numeric(), nullable=False),
    )
    op.create_table(
        "machine_costs_of_days",
        sa.Column("day", time, nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("usd", sa.Numeric(), nullable=False),
    )
    for table in ("changed_days", "usage_of_days", "work_costs_of_days", "machine_costs_of_days"):
        op.create_index(f"{table}_by_day", table, ["day"])
    op.create_index("work_costs_of_days_by_user", "work_costs_of_days", ["user_id", "day"])
    op.create_index(
        "work_costs_of_days_by_workspace", "work_costs_of_days", ["workspace_id", "day"]
    )
    op.execute(_NOTE)
    # A row is copied to the table of deleted ones before it is deleted, so that no sum changes.
    _note(
        "allocations", "started_at", ("slots", "pool"),
        "EXISTS (SELECT FROM deleted_allocations d WHERE d.id = OLD.id)", "allocations",
    )  # fmt: skip
    _note(
        "containers", "assigned_at", ("agent_id", "slot_ids"),
        "EXISTS (SELECT FROM deleted_containers d WHERE d.id = OLD.id)", "containers",
    )  # fmt: skip
    _note(
        "instances", "launched_at", ("agent_id", "pool", "slots", "price_usd_hour"),
        "false", "instances",
    )  # fmt: skip
    for table, (columns, join) in _JOINS.items():
        op.execute(_OF_JOBS.format(table=table, join=join))
        op.execute(
            f"CREATE TRIGGER {table}_note_update AFTER UPDATE OF {columns} ON {table} FOR EACH ROW"
            f" WHEN ({' OR '.join(f'OLD.{c} IS DISTINCT FROM NEW.{c}' for c in columns.split(', '))})"
            f" EXECUTE FUNCTION note_change_of_{table}()"
        )
