"""Values of ended trials by name and number or text, so that filters and sorts of runs read an index.

A tick copies the hyperparameters and summaries of metrics of trials that ended (docs/adr/0044-values-of-runs.md). Other
trials, and ones with very many values, are read from their JSON documents; `trials.has_values` distinguishes them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Double,
    Executable,
    Integer,
    Row,
    Subquery,
    any_,
    case,
    cast,
    func,
    literal_column,
    select,
    text,
    union_all,
)

from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.schema import run_values, value_names

Value = ColumnElement[Any]
Read = Callable[[Executable], Sequence[Row[Any]]]
FEW = 5_000  # rows
MOST_VALUES = 1_000  # of a trial
LONGEST_NAME, LONGEST_TEXT = 500, 800  # bytes
NOT_FINITE = ("NaN", "Infinity", "-Infinity")

_AWAITING = text("SELECT 1 FROM trials WHERE has_values IS NULL AND ended_at IS NOT NULL LIMIT 1")
_CHOSEN = text("""
    SELECT id FROM trials WHERE has_values IS NULL AND ended_at IS NOT NULL ORDER BY id LIMIT :most
    FOR NO KEY UPDATE SKIP LOCKED
""")
_VALUES = "trials t, values_of_run(t.hparams::jsonb, t.summary_metrics) v"
_OF_TRIALS = f"""FROM {_VALUES} WHERE t.id = ANY(cast(:ids AS integer[])) AND t.has_values
    AND octet_length(v.name) <= {LONGEST_NAME}"""
_MARK = text(f"""
    UPDATE trials t SET has_values = {MOST_VALUES} >= (
        SELECT count(*) FROM values_of_run(t.hparams::jsonb, t.summary_metrics))
    WHERE t.id = ANY(cast(:ids AS integer[]))
""")
_ADD_NAMES = text(f"""
    INSERT INTO value_names (name) SELECT DISTINCT v.name {_OF_TRIALS}
        AND NOT EXISTS (SELECT FROM value_names k WHERE k.name = v.name) ORDER BY 1
    ON CONFLICT (name) DO NOTHING
""")
# Numbers beyond a double's range raise an error when they are cast.
_NUMBER = f"""CASE WHEN jsonb_typeof(value) = 'number' THEN
        CASE WHEN value::numeric = 0 THEN 0 WHEN abs(value::numeric) BETWEEN 1e-307 AND 1.7e308 THEN value::float8 END
    WHEN value #>> '{{}}' IN {NOT_FINITE} THEN (value #>> '{{}}')::float8 END"""
_ADD_VALUES = text(f"""
    INSERT INTO run_values (trial_id, name_id, experiment_id, number, text)
    SELECT trial_id, name_id, experiment_id, number, CASE WHEN number IS NULL THEN written END
    FROM (SELECT t.id AS trial_id, k.id AS name_id, t.experiment_id, {_NUMBER} AS number, v.value #>> '{{}}' AS written
          FROM {_VALUES} JOIN value_names k ON k.name = v.name
          WHERE t.id = ANY(cast(:ids AS integer[])) AND t.has_values) x
    WHERE number IS NOT NULL OR octet_length(written) <= {LONGEST_TEXT}
""")


def keep_some(db: Database, most: int) -> bool:
    """Copy the values of so many ended trials; return whether there may be more."""
    if not db.read(_AWAITING):
        return False
    with db.begin() as tx:
        ids = list(tx.execute(_CHOSEN, {"most": most}).scalars())
        keep(tx, ids)
    return len(ids) == most


def keep(tx: Tx, trial_ids: Sequence[int]) -> None:
    """Copy the values of trials that have none in the table; the caller has locked the trials."""
    for statement in (_MARK, _ADD_NAMES, _ADD_VALUES):
        tx.execute(statement, {"ids": list(trial_ids)})


_V = run_values.alias("v")
_v = _V.c
NUMBER: Value = literal_column("v.number", Double)
TEXT: Value = literal_column("v.text")
_NONE = cast([], ARRAY(Integer))
_OWN = {"trial_id": "t.id", "experiment_id": "t.experiment_id"}
_OTHERS: ColumnElement[bool] = literal_column("t.has_values IS NOT TRUE")


@dataclass(frozen=True, slots=True, eq=False)
class KeptValue:
    """A column with kept values. `subject` is the SQL of the listed row's trial or experiment, which `of` says."""

    name: str
    subject: str
    of: str  # trial_id or experiment_id
    value: Value  # in the documents of trial `t`

    def among(
        self, kept: ColumnElement[bool], other: ColumnElement[bool], read: Read
    ) -> tuple[bool, ColumnElement[bool]]:
        """Return the condition that holds of the kept value, or of the document of a trial without kept values.

        If it holds of a few rows, it lists their ids, because PostgreSQL cannot estimate how many there are. The first
        part of the result is True then."""
        kept_ids = select(_v[self.of]).select_from(_V)
        kept_ids = kept_ids.where(_v.name_id == self._name_id, kept)
        others = select(literal_column(_OWN[self.of], Integer).label(self.of)).select_from(
            text("trials t")
        )
        others = others.where(_OTHERS, other)
        subject = literal_column(self.subject, Integer)
        first = union_all(kept_ids, others).limit(FEW + 1).subquery()
        ids: ColumnElement[Any] = func.array_agg(literal_column(self.of, Integer).distinct())
        ((few,),) = read(
            select(case((func.count() <= FEW, func.coalesce(ids, _NONE)))).select_from(first)
        )
        if few is not None:
            return True, subject == any_(cast(few, ARRAY(Integer)))
        return False, subject.in_(kept_ids) | subject.in_(others)

    def ranked(self) -> tuple[Subquery, ColumnElement[bool]]:
        """Return trials as `s` with `trial_id`, `experiment_id` and `number`, and the condition for the ones with a number.

        PostgreSQL reads them in the order of an index only if the condition is outside of the union."""
        kept_values = select(_v.trial_id, _v.experiment_id, _v.number, _v.name_id)
        columns = [literal_column(_OWN[c], Integer).label(c) for c in ("trial_id", "experiment_id")]
        columns += [number_of(self.value).label("number"), self._name_id.label("name_id")]
        others = select(*columns).select_from(text("trials t")).where(_OTHERS)
        ranked = union_all(kept_values, others).subquery("s")
        return ranked, (ranked.c.name_id == self._name_id) & ranked.c.number.is_not(None)

    @property
    def _name_id(self) -> Any:
        query = select(value_names.c.id).where(value_names.c.name == self.name)
        return func.coalesce(query.scalar_subquery(), 0)


def text_of(value: Value) -> Value:
    nothing: Any = literal_column("'{}'::text[]")
    return value.op("#>>")(nothing)


def number_of(value: Value) -> Value:
    """Return the number of a JSON value, also NaN and infinities; NULL of other values."""
    text_value = text_of(value)
    numeric = (func.jsonb_typeof(value) == "number") | text_value.in_(NOT_FINITE)
    return case((numeric, cast(text_value, Double)))
