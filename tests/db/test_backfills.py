"""Experiments that were there before a migration look like those made after it."""

import json
import shutil
from pathlib import Path

import pg8000.native
import pytest
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import experiment_pages, experiment_texts
from det_controlplane.db.engine import Database, connect_options
from det_controlplane.db.experiment_texts import ExperimentTexts
from det_controlplane.db.migrate import FOLDER, migrate, read_migrations
from det_controlplane.db.sql import text
from det_controlplane.services.experiments import creation

from tests.support.searching import OWNER, SINGLE, context

# Before experiments had texts, before these had all that they have, before their versions and what these stand for.
BEFORE = (10, 13, 15, 16, 17)


def migrate_to(url: str, version: int, folder: Path) -> None:
    for migration in read_migrations()[:version]:
        shutil.copy(FOLDER / migration.name, folder)
    migrate(url, folder)


def copy_rows(table: str, source: str, target: str) -> None:
    """Those columns that the target has and does not compute."""
    old, new = (pg8000.native.Connection(**connect_options(url)) for url in (source, target))
    try:
        columns = new.run(
            "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns "
            "WHERE table_name = :table AND is_generated = 'NEVER'",
            table=table,
        )[0][0]
        for (row,) in old.run(f"SELECT to_jsonb(t) FROM {table} t"):
            new.run(
                f"INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} "
                f"FROM jsonb_populate_record(null::{table}, cast(:row AS jsonb))",
                row=json.dumps(row),
            )
    finally:
        old.close()
        new.close()


def listed(url: str) -> tuple[bytes, str]:
    database = Database(url)
    try:
        shown = experiment_texts.one(database, 1)
        assert shown is not None
        found = experiment_pages.find(database, ExperimentTexts(), Page(), Sort(), {})
        return found, shown.config
    finally:
        database.dispose()


def without_durations(page: bytes) -> list[dict[str, object]]:
    return [
        {k: v for k, v in e.items() if k not in ("duration", "numTrials")}
        for e in json.loads(page)["experiments"]
    ]


@pytest.mark.parametrize("version", BEFORE)
def test_experiments_from_before_are_listed_as_others_are(
    database_url: str, empty_database_url: str, tmp_path: Path, version: int
) -> None:
    database = Database(database_url)
    for _ in range(2):
        creation.create(context(database), OWNER, creation.Submission(config=SINGLE))
    database.dispose()
    migrate_to(empty_database_url, version, tmp_path)
    for table in ("jobs", "experiments"):
        copy_rows(table, database_url, empty_database_url)
    migrate(empty_database_url)
    (fresh, fresh_config), (old, old_config) = listed(database_url), listed(empty_database_url)
    assert len(without_durations(old)) == 2
    assert without_durations(old) == without_durations(fresh)
    assert old_config == fresh_config


def test_a_text_from_before_is_written_anew_when_its_experiment_changes(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    database = Database(database_url)
    creation.create(context(database), OWNER, creation.Submission(config=SINGLE))
    database.dispose()
    migrate_to(empty_database_url, 15, tmp_path)
    for table in ("jobs", "experiments"):
        copy_rows(table, database_url, empty_database_url)
    migrate(empty_database_url)
    migrated, texts = Database(empty_database_url), ExperimentTexts()
    try:
        before = experiment_pages.find(migrated, texts, Page(), Sort(), {})
        migrated.alone(text("UPDATE experiments SET name = 'another' RETURNING id"))
        after = experiment_pages.find(migrated, texts, Page(), Sort(), {})
    finally:
        migrated.dispose()
    assert (b'"another"' in before, b'"another"' in after) == (False, True)
