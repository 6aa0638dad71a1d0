"""The parts that all tables share: their registry, the names of their constraints, and types."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

# The names that PostgreSQL gives by itself: `Violated.constraint` is one of them.
metadata = sa.MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    }
)

Time = sa.DateTime(timezone=True)
JSON = postgresql.JSONB(none_as_null=True)
# JSON of users: their code sees the keys in the written order, which JSONB does not keep.
ORDERED_JSON = postgresql.JSON(none_as_null=True)

# Managed databases and the embedded one have the extension. Others, or users without the right, continue without its index.
CREATE_TRIGRAMS = """
    DO $$ BEGIN
        CREATE EXTENSION IF NOT EXISTS pg_trgm;
    EXCEPTION WHEN OTHERS THEN
        RAISE NOTICE 'names are searched without an index: %', SQLERRM;
    END $$"""


HAS_TRIGRAMS = sa.text(
    "SELECT EXISTS (SELECT FROM pg_opclass WHERE opcname = 'gin_trgm_ops' AND pg_opclass_is_visible(oid))"
)


def if_trigrams(ddl: Any, target: Any, bind: sa.Connection | None, *_: Any, **__: Any) -> bool:
    """Return whether the database has the extension, as a condition for an index."""
    return bind is not None and bool(bind.execute(HAS_TRIGRAMS).scalar_one())


def enum(kind: type[Enum], name: str = "", *, unused: Sequence[str] = ()) -> "sa.Enum":
    """Return the PostgreSQL type of an enum: `session_kind` of `SessionKind`, with its values as labels.

    Labels that no value has any more stay: PostgreSQL drops none. Such a column is read and written as text."""
    own = "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")
    if unused:
        return sa.Enum(*_labels(kind), *unused, name=name or own, metadata=metadata)
    return sa.Enum(kind, name=name or own, metadata=metadata, values_callable=_labels)


def _labels(kind: Any) -> list[str]:
    return [member.value for member in kind]
