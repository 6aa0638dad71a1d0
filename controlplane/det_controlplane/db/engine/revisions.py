"""The numbers of the database's revisions, known from the names of their files without loading SQLAlchemy or Alembic."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "migrations"
NUMBERS = sorted(path.name[:4] for path in (FOLDER / "versions").glob("[0-9]*.py"))
BASELINE, HEAD = NUMBERS[0], NUMBERS[-1]
