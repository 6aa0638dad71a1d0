"""Let users and groups have roles; whoever made a workspace administrates it."""

import sqlalchemy as sa
from alembic import op

revision = "0105"
down_revision = "0104"


def upgrade() -> None:
    op.create_table(
        "role_assignments",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Integer()),
        sa.Column("group_id", sa.Integer()),
        sa.Column("workspace_id", sa.Integer()),
        sa.CheckConstraint(
            "(user_id IS NULL) <> (group_id IS NULL)", name=op.f("role_assignments_holder_check")
        ),
        *(
            sa.ForeignKeyConstraint(
                [f"{thing}_id"],
                [f"{thing}s.id"],
                name=op.f(f"role_assignments_{thing}_id_fkey"),
                ondelete="CASCADE",
            )
            for thing in ("user", "group", "workspace")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("role_assignments_pkey")),
    )
    once = [sa.text(f"coalesce({thing}_id, 0)") for thing in ("user", "group", "workspace")]
    op.create_index("role_assignment", "role_assignments", [*once, "role"], unique=True)
    for thing in ("user", "group", "workspace"):
        op.create_index(f"role_assignments_by_{thing}", "role_assignments", [f"{thing}_id"])
    op.execute("""
        INSERT INTO role_assignments (role, user_id, workspace_id)
        SELECT 'WorkspaceAdmin', user_id, id FROM workspaces WHERE NOT immutable
    """)
