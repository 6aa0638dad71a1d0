"""Write the rows of an export as Parquet files: one directory per table, one file per part."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from det_cli.deployment.extras import needed
from det_cli.errors import CommandError
from det_cli.exporting.folder import Folder
from det_cli.exporting.rows import TABLE_OF, TABLES, Row

with needed("export"):
    import pyarrow as pa
    import pyarrow.parquet as pq

_GROUP = 50_000  # rows in memory, and in a row group of a file
_MOST_EXPERIMENTS, _MOST_METRICS = 500, 5_000_000  # of a part
_MOST_S = 120.0  # of a part: an interruption loses less work
_MODELS = ("models", "model_versions")
_TYPES = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", tz="UTC"),
    tuple: pa.list_(pa.string()),
}


class ParquetWriter:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder.path
        self._rows: dict[str, list[Row]] = {}
        self._files: dict[str, Any] = {}
        self._counts: Counter[str] = Counter()
        self._began = time.monotonic()  # of the part

    def table(self, row: Row) -> str:
        return TABLE_OF[type(row)]

    def write(self, row: Row) -> None:
        table = TABLE_OF[type(row)]
        rows = self._rows.setdefault(table, [])
        rows.append(row)
        if len(rows) == _GROUP:
            self._flush(table)

    def begin(self, finished_parts: int) -> None:
        """Remove files of a part that has no line in the journal, because of an interruption."""
        for file in self._folder.glob("*/part-*.parquet"):
            if int(file.stem.removeprefix("part-")) > finished_parts:
                file.unlink()

    def is_full(self) -> bool:
        """Return whether the part should end after this experiment."""
        metrics = self._counts["metrics"] + len(self._rows.get("metrics", ()))
        experiments = len(self._rows.get("experiments", ()))
        is_late = time.monotonic() - self._began > _MOST_S
        return experiments >= _MOST_EXPERIMENTS or metrics >= _MOST_METRICS or is_late

    def finish(self, number: int, *, models: bool = False) -> dict[str, int]:
        """Complete the files of a part, which begin their names with a dot until then. Return their rows."""
        for table in TABLES:
            if (table in _MODELS) == models:
                self._flush(table)
                self._files[table].close()
                self._temporary(table).replace(self._folder / table / f"part-{number:05d}.parquet")
        counts = dict(self._counts)
        self._rows, self._files, self._counts = {}, {}, Counter()
        self._began = time.monotonic()
        return counts

    def stored(self) -> dict[str, int]:
        """Count the rows of all files."""
        counts: dict[str, int] = {}
        for table in TABLES:
            files = sorted((self._folder / table).glob("part-*.parquet"))
            counts[table] = sum(_rows_of(file) for file in files)
        return counts

    def _flush(self, table: str) -> None:
        if table not in self._files:
            path = self._temporary(table)
            path.parent.mkdir(exist_ok=True)
            self._files[table] = pq.ParquetWriter(path, schema(table), compression="zstd")
        rows = self._rows.pop(table, [])
        if rows:
            self._files[table].write_table(_arrow(table, rows))
        self._counts[table] += len(rows)

    def _temporary(self, table: str) -> Path:
        return self._folder / table / ".unfinished.parquet"


def _rows_of(file: Path) -> int:
    try:
        return int(pq.read_metadata(file).num_rows)
    except pa.ArrowInvalid as e:
        raise CommandError(
            f"'{file}' is damaged: it is not a whole Parquet file",
            "export again, into an empty directory",
        ) from e


def schema(table: str) -> Any:
    """Return the Arrow schema of a table, by the annotations of its row."""
    fields = []
    for name, hint in get_type_hints(TABLES[table]).items():
        options = get_args(hint) if NoneType in get_args(hint) else (hint,)
        kind = next(option for option in options if option is not NoneType)
        type_ = _TYPES[tuple if kind == tuple[str, ...] else kind]
        fields.append(pa.field(name, type_, nullable=NoneType in options))
    return pa.schema(fields)


def _arrow(table: str, rows: Sequence[Row]) -> Any:
    of_table = schema(table)
    columns = zip(zip(*rows, strict=True), of_table, strict=True)
    arrays = [pa.array(values, field.type) for values, field in columns]
    return pa.Table.from_arrays(arrays, schema=of_table)
