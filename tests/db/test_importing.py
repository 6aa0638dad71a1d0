"""Imports of Determined clusters: databases of 0.38.1 become clusters of ours."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

import pytest
from det_controlplane.core.importing.options import Options, parse_logs
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.db.engine.connections import plain_engine
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.errors import DatabaseDown
from det_controlplane.db.engine.migrate import MigrationError
from det_controlplane.db.importing import connecting, dictionary, source, target
from det_controlplane.db.importing.source import NotDetermined
from det_controlplane.db.importing.target import ImportRunning
from det_controlplane.services.errors import Invalid
from det_controlplane.services.experiments import actions
from det_controlplane.services.importing import importing, plan, verify
from det_controlplane.services.importing.importing import Report, Result
from det_controlplane.services.importing.verify import Comparison
from sqlalchemy import text
from sqlalchemy.engine import make_url

from tests.support.determined_source import ASHA, SourceCluster, config_of, populate
from tests.support.postgres import DatabaseServer
from tests.support.searching import context, validate

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


@pytest.fixture
def old(empty_database_url: str) -> Iterator[SourceCluster]:
    cluster = SourceCluster(empty_database_url)
    yield cluster
    cluster.close()


@pytest.fixture
def new_url(postgres_server: DatabaseServer) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


def imported(old: SourceCluster, url: str, options: Options = Options()) -> Result:
    with source.opened(old.url) as snapshot, target.opened(url) as cluster:
        return importing.run(snapshot, cluster, options, lambda: NOW, lambda report: None)


def compared(old: SourceCluster, url: str) -> list[Comparison]:
    with source.opened(old.url) as snapshot, target.opened(url) as cluster:
        return verify.compare(snapshot, cluster)


def change(url: str, sql: str) -> None:
    engine = plain_engine(url)
    with engine.begin() as tx:
        for statement in sql.split(";"):
            tx.execute(text(statement))
    engine.dispose()


class Rows:
    """Reads rows of the new cluster."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, sql: str, **params: Any) -> list[tuple[Any, ...]]:
        with target.opened(self._url) as cluster, cluster.read() as tx:
            return [tuple(row) for row in tx.execute(text(sql), params)]


@pytest.fixture
def rows(new_url: str) -> Rows:
    return Rows(new_url)


def test_experiments_keep_their_ids_in_an_empty_cluster(
    old: SourceCluster, new_url: str, rows: Rows
) -> None:
    old.experiment(17, best_trial_id=40)
    best = old.validation(40, 16, {"loss": 0.25, "accuracy": "NaN"})
    old.trial(40, 17, best_validation_id=best, searcher_metric_value=0.25, total_batches=16)
    result = imported(old, new_url)
    assert result.remarks.lines() == []
    assert rows("SELECT id, state::text, best_trial_id, best_metric, name FROM experiments") == [
        (17, "COMPLETED", 40, 0.25, "digits")
    ]
    assert rows("SELECT trial_id, metric_group, total_batches, metrics FROM metrics") == [
        (40, "validation", 16, {"loss": 0.25, "accuracy": "NaN"})
    ]
    assert rows("SELECT best_validation_id = m.id FROM trials, metrics m") == [(True,)]


@pytest.fixture
def whole(old: SourceCluster) -> SourceCluster:
    populate(old)
    return old


def test_people_and_workspaces_are_imported(whole: SourceCluster, new_url: str, rows: Rows) -> None:
    imported(whole, new_url)
    assert rows(
        "SELECT id, username, password_hash, remote, active FROM users WHERE id > 2 ORDER BY id"
    ) == [
        (3, "ada", "bcrypt$$2a$10$not-a-real-hash", False, True),
        (4, "grace", None, True, True),
        (5, "gone", "bcrypt$$2a$10$not-a-real-hash", False, False),
    ]
    assert rows("SELECT agent_user->>'agentUser', display_name FROM users WHERE id = 3") == [
        ("ada", "Ada Łovelace")
    ]
    assert rows("SELECT role, user_id, group_id, workspace_id FROM role_assignments ORDER BY role") == [
        ("ClusterAdmin", 3, None, None), ("Editor", None, 2, 2),
    ]  # fmt: skip
    note = {"name": "plan", "contents": "lr ≤ 0.1"}
    assert rows("SELECT name, key, notes, workspace_id FROM projects WHERE id = 5") == [
        ("Zahlen", "ZAH", [note], 2)
    ]
    assert rows("SELECT name, workspace_id FROM templates") == [("gpu", 2)]
    assert rows("SELECT policy FROM config_policies") == [
        ({"constraints": {"resources": {"max_slots": 8}}},)
    ]


def test_experiments_are_imported_with_all_that_belongs_to_them(
    whole: SourceCluster, new_url: str, rows: Rows
) -> None:
    result = imported(whole, new_url)
    assert (result.counts.experiments, result.counts.trials, result.counts.logs) == (4, 2, 3)
    assert rows("SELECT id, state::text, parent_id, archived, labels FROM experiments ORDER BY id") == [
        (10, "COMPLETED", None, False, ["vision"]), (11, "ERROR", 10, True, ["old"]),
        (12, "CANCELED", None, False, ["vision"]), (13, "COMPLETED", None, False, ["vision"]),
    ]  # fmt: skip
    reports = rows("SELECT metric_group, total_batches, metrics FROM metrics ORDER BY id")
    assert [report for report in reports if report[0] != "training"] == [
        ("validation", 8, {"loss": 1.0, "accuracy": "NaN"}), ("validation", 16, {"loss": 0.5, "accuracy": "NaN"}),
        ("test", 16, {"ünïcode": 1}),
    ]  # fmt: skip
    assert rows("SELECT log FROM task_logs ORDER BY id") == [
        ("erste Zeile: Grüße\tTab \\ und\nUmbruch",), ("bytes \ufffd\ufffd that are no text",),
        ("Traceback: it failed",),
    ]  # fmt: skip
    storage = "(SELECT s.config->>'bucket' FROM storages s WHERE s.id = storage_id)"
    checkpoints = f"SELECT steps_completed, state::text, {storage} FROM checkpoints ORDER BY 1"
    assert rows(checkpoints) == [(8, "DELETED", None), (16, "COMPLETED", "checkpoints")]
    assert rows("SELECT metadata FROM trials WHERE id = 20") == [
        ({"commit": "abc", "nested": {"x": 1}},)
    ]
    assert rows("SELECT names FROM metric_names WHERE experiment_id = 10") == [
        ({"validation": {"loss": "number"}},)
    ]
    versions = """SELECT m.name, v.version, c.steps_completed FROM models m
        JOIN model_versions v ON v.model_id = m.id JOIN checkpoints c ON c.uuid = v.checkpoint_uuid"""
    assert rows(versions) == [("digits", 1, 16)]
    webhooks = "SELECT w.name, w.enabled, t.condition FROM webhooks w JOIN webhook_triggers t ON t.webhook_id = w.id"
    assert rows(webhooks) == [("slack", False, {"state": "COMPLETED"})]
    assert rows("SELECT task_kind::text, workspace_name, slots FROM deleted_allocations") == [
        ("NOTEBOOK", "Vision", 2)
    ]


def test_new_rows_get_ids_after_the_imported_ones(
    whole: SourceCluster, new_url: str, rows: Rows
) -> None:
    imported(whole, new_url)
    assert rows("SELECT nextval(pg_get_serial_sequence('experiments', 'id'))") == [(14,)]
    assert rows("SELECT nextval(pg_get_serial_sequence('metrics', 'id'))") == [(6,)]


def test_verification_finds_no_difference_after_an_import(
    whole: SourceCluster, new_url: str
) -> None:
    imported(whole, new_url)
    assert [each for each in compared(whole, new_url) if not each.equal] == []


def test_verification_finds_a_missing_report(whole: SourceCluster, new_url: str) -> None:
    imported(whole, new_url)
    change(new_url, "DELETE FROM metrics WHERE metric_group = 'test'")
    assert {each.what for each in compared(whole, new_url) if not each.equal} == {
        "reports of metrics", "sum of their batches", "sampled reports",
    }  # fmt: skip


def test_used_cluster_gets_larger_ids(whole: SourceCluster, new_url: str, rows: Rows) -> None:
    change(new_url, "INSERT INTO users (id, username) VALUES (77, 'ada')")
    change(new_url, "INSERT INTO workspaces (id, name, user_id) VALUES (12, 'vision', 77)")
    with pytest.raises(Invalid, match=r"1 user name in both clusters \(ada\): give --merge-users"):
        imported(whole, new_url)
    result = imported(whole, new_url, Options(merge_users=True))
    assert "workspace 'Vision': is named 'Vision (imported)' here" in "\n".join(
        result.remarks.lines()
    )
    assert rows("SELECT id, user_id, project_id FROM experiments ORDER BY id LIMIT 1") == [
        (10010, 77, 10005)
    ]
    assert rows("SELECT best_trial_id FROM experiments WHERE id = 10010") == [(10020,)]
    assert [each for each in compared(whole, new_url) if not each.equal] == []


def test_import_continues_after_each_interruption(
    whole: SourceCluster, new_url: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_EXPERIMENTS", 1)
    advance = target.advance
    interruptions = 0

    def fail_once_in_two(*args: Any, **values: Any) -> None:
        nonlocal interruptions
        advance(*args, **values)
        interruptions += 1
        if interruptions % 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(target, "advance", fail_once_in_two)
    for _ in range(5):  # people and four experiments
        with pytest.raises(KeyboardInterrupt):
            imported(whole, new_url)
    result = imported(whole, new_url)
    assert not result.was_complete
    # Remarks of the interrupted runs, also about webhooks in the first one, are repeated.
    assert any("webhook 1: sends nothing" in line for line in result.remarks.lines())
    assert [each for each in compared(whole, new_url) if not each.equal] == []
    again = imported(whole, new_url)
    assert again.was_complete
    assert again.remarks.lines() == result.remarks.lines()


def test_import_continues_after_a_lost_connection(
    whole: SourceCluster, new_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_EXPERIMENTS", 1)
    losing = iter((False, True))

    def lose(report: Report) -> None:
        if next(losing, False):
            change(
                whole.url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )

    with (
        pytest.raises(DatabaseDown),
        source.opened(whole.url) as snapshot,
        target.opened(new_url) as cluster,
    ):
        importing.run(snapshot, cluster, Options(), lambda: NOW, lose)
    imported(whole, new_url)
    assert [each for each in compared(whole, new_url) if not each.equal] == []


# Versions before 0.30 had one table of trials, and no tables of runs, storages, policies and metadata.
OLDER = """
    ALTER TABLE runs RENAME TO trials; ALTER TABLE trials ADD request_id text, ADD seed integer;
    UPDATE trials t SET request_id = v.request_id, seed = v.seed FROM trials_v2 v WHERE v.run_id = t.id;
    ALTER TABLE run_id_task_id RENAME TO trial_id_task_id;
    ALTER TABLE trial_id_task_id RENAME COLUMN run_id TO trial_id;
    DROP TABLE trials_v2, run_checkpoints, runs_metadata, storage_backend, task_config_policies, workspace_pins,
        role_assignments, allocation_workspace_info;
    ALTER TABLE checkpoints_v2 DROP storage_id; ALTER TABLE experiments DROP best_trial_id, DROP unmanaged;
    ALTER TABLE users DROP last_auth_at, DROP remote; ALTER TABLE projects DROP key
"""


def test_older_version_is_imported(whole: SourceCluster, new_url: str, rows: Rows) -> None:
    change(whole.url, OLDER)
    imported(whole, new_url)
    assert rows("SELECT id, request_id::text, seed FROM trials ORDER BY id") == [
        (20, str(UUID(int=1020)), 3), (21, str(UUID(int=1021)), 3),
    ]  # fmt: skip
    assert rows("SELECT trial_id, steps_completed FROM checkpoints ORDER BY 2") == [
        (20, 8),
        (20, 16),
    ]
    assert [each for each in compared(whole, new_url) if not each.equal] == []


# Versions before metrics of any group had one table for each of the two groups, with their columns in another order.
TWO_TABLES = """
    ALTER TABLE metrics DETACH PARTITION raw_steps; ALTER TABLE metrics DETACH PARTITION raw_validations;
    DROP TABLE metrics; ALTER TABLE raw_steps DROP partition_type, DROP metric_group;
    ALTER TABLE raw_validations DROP partition_type, DROP metric_group, DROP total_batches;
    ALTER TABLE raw_validations ADD total_batches integer NOT NULL DEFAULT 16
"""


def test_metrics_of_two_tables_are_imported(whole: SourceCluster, new_url: str, rows: Rows) -> None:
    change(whole.url, OLDER)
    change(whole.url, TWO_TABLES)
    imported(whole, new_url)
    assert rows("SELECT metric_group, count(*) FROM metrics GROUP BY 1 ORDER BY 1") == [
        ("training", 2), ("validation", 2),
    ]  # fmt: skip
    assert [each for each in compared(whole, new_url) if not each.equal] == []


def test_contents_that_never_move_are_named(whole: SourceCluster, new_url: str) -> None:
    whole.add("trial_logs", id=1, trial_id=20, message=b"old line")
    sentence = "logs of trials that ran on versions before 0.17 do not move"
    with source.opened(whole.url) as snapshot:
        assert plan.look(snapshot, "all").absent == (sentence,)
    assert sentence in imported(whole, new_url).remarks.lines()


# Tables that a version may lack. An import needs none of them.
OPTIONAL = sorted(
    set(dictionary.COLUMNS) - {
        "allocations", "checkpoints_v2", "cluster_id", "experiments", "metrics", "runs", "tasks", "trials",
        "run_id_task_id", "users", "jobs", "projects", "workspaces",
    }
)  # fmt: skip


@pytest.mark.parametrize("table", OPTIONAL)
def test_source_may_lack_a_table(
    whole: SourceCluster, new_url: str, rows: Rows, table: str
) -> None:
    change(whole.url, f"DROP TABLE {table} CASCADE")
    with source.opened(whole.url) as snapshot:
        assert plan.look(snapshot, "all").counts["experiments"] == 4
    imported(whole, new_url)
    assert rows("SELECT count(*) FROM experiments") == [(4,)]
    compared(whole, new_url)


REQUIRED_COLUMNS = {
    "id", "experiment_id", "run_id", "trial_id", "task_id", "allocation_id", "uuid", "state", "config", "owner_id",
    "model_definition", "start_time", "metrics", "total_batches", "trial_run_id", "archived", "end_time", "username",
    "cluster_id", "job_id", "job_type", "task_type", "name", "partition_type",
}  # fmt: skip


@pytest.mark.parametrize(
    "table", ["experiments", "runs", "users", "projects", "workspaces", "checkpoints_v2", "tasks", "allocations"]
)  # fmt: skip
def test_source_may_lack_columns(
    whole: SourceCluster, new_url: str, rows: Rows, table: str
) -> None:
    for column in set(dictionary.COLUMNS[table].split()) - REQUIRED_COLUMNS:
        change(whole.url, f"ALTER TABLE {table} DROP {column} CASCADE")
    imported(whole, new_url)
    assert rows("SELECT count(*) FROM experiments") == [(4,)]
    assert rows("SELECT count(*) FROM trials") == [(2,)]


def test_fork_with_unknown_tables_and_columns_is_imported(
    whole: SourceCluster, new_url: str, rows: Rows
) -> None:
    change(
        whole.url,
        "CREATE TABLE fork_plugins (id integer); ALTER TABLE experiments ADD fork_note text DEFAULT 'x';"
        "ALTER TABLE runs ADD fork_cost numeric; ALTER TABLE users ADD fork_team text",
    )
    names = ("experiments.fork_note", "fork_plugins", "runs.fork_cost", "users.fork_team")
    with source.opened(whole.url) as snapshot:
        assert plan.look(snapshot, "all").unknown == names
    result = imported(whole, new_url)
    assert f"{', '.join(names)}: unknown to this version, does not move" in result.remarks.lines()
    assert [each for each in compared(whole, new_url) if not each.equal] == []


def test_determined_0_38_has_no_unknown_tables(whole: SourceCluster) -> None:
    with source.opened(whole.url) as snapshot:
        assert plan.look(snapshot, "all").unknown == ()


def test_logs_are_selected(whole: SourceCluster, new_url: str, rows: Rows) -> None:
    imported(whole, new_url, Options(logs=parse_logs("errors")))
    assert rows("SELECT log FROM task_logs") == [("Traceback: it failed",)]


def test_last_report_of_a_repeated_step_counts(
    old: SourceCluster, new_url: str, rows: Rows
) -> None:
    old.experiment(1)
    old.validation(1, 4, {"loss": 1})
    old.validation(1, 4, {"loss": 2}, run=2)
    old.trial(1, 1)
    imported(old, new_url)
    assert rows("SELECT metrics, archived FROM metrics ORDER BY id") == [
        ({"loss": 1}, True), ({"loss": 2}, False),
    ]  # fmt: skip
    assert [each for each in compared(old, new_url) if not each.equal] == []


def test_row_that_does_not_fit_is_named_and_nothing_of_its_batch_appears(
    old: SourceCluster, new_url: str, rows: Rows
) -> None:
    old.experiment(1)
    config = config_of()
    old.experiment(2, config={**config, "resources": {**config["resources"], "max_slots": -1}})
    with pytest.raises(Invalid, match="one of the experiments 1 to 2 cannot be stored"):
        imported(old, new_url)
    assert rows("SELECT count(*) FROM experiments") == [(0,)]


def test_second_process_stops_when_another_continues_the_import(
    whole: SourceCluster, new_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_EXPERIMENTS", 1)
    racing = iter((False, True))

    def race(report: Report) -> None:
        if next(racing, False):
            change(new_url, "UPDATE imports SET experiment = 11")

    with (
        source.opened(whole.url) as snapshot,
        target.opened(new_url) as cluster,
        pytest.raises(ImportRunning, match="another process"),
    ):
        importing.run(snapshot, cluster, Options(), lambda: NOW, race)


def test_database_of_another_product_is_refused(empty_database_url: str, new_url: str) -> None:
    with (
        pytest.raises(NotDetermined, match="this is no database of Determined"),
        source.opened(empty_database_url),
    ):
        pass


def test_unfinished_migration_is_refused(old: SourceCluster, new_url: str) -> None:
    with old.engine.begin() as tx:
        tx.exec_driver_sql("DROP TABLE checkpoints_v2")
    with pytest.raises(NotDetermined, match="no table checkpoints_v2"):
        imported(old, new_url)


def running_search(old: SourceCluster, reports: int, searcher: dict[str, Any] = ASHA) -> None:
    """Write an experiment of adaptive ASHA that is paused in the middle: trials 1 to 4, of which some have reported."""
    old.experiment(5, state="PAUSED", config=config_of(searcher=searcher), end_time=None)
    losses = {1: 0.1, 2: 0.9, 3: 0.5, 4: 0.4}
    for trial, loss in list(losses.items())[:reports]:
        old.validation(trial, 4, {"loss": loss})
    for trial in losses:
        old.trial(trial, 5, state="PAUSED", end_time=None, hparams={"lr": trial / 10})


def test_paused_search_continues_where_it_stood(
    old: SourceCluster, new_url: str, rows: Rows
) -> None:
    running_search(old, 2)
    result = imported(old, new_url)
    assert result.remarks.lines() == []
    assert rows("SELECT state::text FROM experiments") == [("PAUSED",)]
    assert rows("SELECT id, state::text, hparams->>'lr' FROM trials ORDER BY id") == [
        (1, "PAUSED", "0.1"), (2, "COMPLETED", "0.2"), (3, "PAUSED", "0.3"), (4, "PAUSED", "0.4"),
    ]  # fmt: skip
    database = Database(new_url)
    try:
        ctx = context(database)
        actions.command(ctx, 5, Command.ACTIVATE)
        validate(ctx, 3, 4, 0.95)
    finally:
        database.dispose()
    assert rows("SELECT state::text FROM trials WHERE id = 3") == [("COMPLETED",)]


def test_search_that_cannot_be_rebuilt_is_named(
    old: SourceCluster, new_url: str, rows: Rows
) -> None:
    config = config_of(searcher={"name": "adaptive_simple", "metric": "loss"})
    old.experiment(5, state="ACTIVE", config=config, end_time=None)
    old.trial(1, 5, state="ACTIVE", end_time=None)
    result = imported(old, new_url)
    assert (
        "experiment 5: moves as canceled, because its searcher is not supported"
        in result.remarks.lines()[0]
    )
    assert rows("SELECT state::text FROM experiments") == [("CANCELED",)]
    assert rows("SELECT state::text FROM trials") == [("CANCELED",)]


def test_experiment_that_moves_as_canceled_ends_with_its_last_trial(
    old: SourceCluster, new_url: str, rows: Rows
) -> None:
    old.experiment(5, state="PAUSED", config=config_of(searcher=PBT), end_time=None)
    old.trial(1, 5, state="COMPLETED", end_time="2024-05-01T13:00:00Z")
    old.trial(2, 5, state="COMPLETED", end_time="2024-05-01T14:00:00Z")
    imported(old, new_url)
    assert rows("SELECT state::text, ended_at = '2024-05-01T14:00:00Z' FROM experiments") == [
        ("CANCELED", True)
    ]


PBT = {
    "name": "pbt", "metric": "loss", "smaller_is_better": True, "population_size": 2, "num_rounds": 3,
    "length_per_round": {"batches": 4}, "replace_function": {"truncate_fraction": 0.5},
    "explore_function": {"resample_probability": 0.2, "perturb_factor": 0.2},
}  # fmt: skip


def test_dry_run_names_the_searches_that_cannot_continue(old: SourceCluster, new_url: str) -> None:
    running_search(old, 2)
    for number in (6, 7):
        old.experiment(number, state="PAUSED", config=config_of(searcher=PBT), end_time=None)
        for trial in (0, 1):
            old.trial(10 * number + trial, number, state="PAUSED", end_time=None)
    with source.opened(old.url) as snapshot:
        found = plan.look(snapshot, "all")
    assert found.paused == (5,)
    (line,) = found.canceled
    assert line.startswith("experiment 6, experiment 7: moves as canceled, because ")
    assert line.endswith("each trial can be continued with `det trial continue old:ID`")
    assert imported(old, new_url).remarks.lines() == [line]


# The older form of ASHA: trials pause at a rung and are promoted later.
PROMOTION = {
    "name": "adaptive_asha", "metric": "loss", "smaller_is_better": True, "max_trials": 4, "divisor": 4, "max_rungs": 2,
    "max_length": {"batches": 16}, "mode": "aggressive", "max_concurrent_trials": 4, "stop_once": False,
}  # fmt: skip


def test_promotion_search_moves_as_canceled_with_a_way_to_continue_its_trials(
    old: SourceCluster, new_url: str, rows: Rows
) -> None:
    running_search(old, 3, PROMOTION)
    (line,) = imported(old, new_url).remarks.lines()
    assert (
        "experiment 5: moves as canceled, because searcher adaptive_asha trains in rounds" in line
    )
    assert "`det trial continue old:ID`" in line
    assert rows("SELECT state::text FROM experiments") == [("CANCELED",)]


def test_options_of_an_interrupted_import_are_kept_except_its_name(
    old: SourceCluster, new_url: str, rows: Rows
) -> None:
    imported(old, new_url)
    with pytest.raises(Invalid, match="this import has begun with 0, which cannot change"):
        imported(old, new_url, Options(id_offset=5000))
    imported(old, new_url, Options(name="lab"))
    assert rows("SELECT name FROM imports") == [("lab",)]


def test_target_must_be_a_cluster(old: SourceCluster) -> None:
    with pytest.raises(MigrationError, match="not the database of a cluster"):
        imported(old, old.url)


def test_own_cluster_is_no_source(new_url: str) -> None:
    with (
        pytest.raises(NotDetermined, match="a cluster of Determined Serverless: `det export`"),
        source.opened(new_url),
    ):
        pass


@pytest.mark.parametrize(
    ("mode", "is_encrypted"), [("?sslmode=disable", False), ("?sslmode=require", True), ("", True)]
)
def test_source_elsewhere_is_encrypted_unless_the_user_says_otherwise(
    mode: str, is_encrypted: bool
) -> None:
    arguments = connecting.source_arguments(
        make_url(f"postgresql://u:p@master.example.com/det{mode}")
    )
    assert isinstance(arguments["ssl_context"], ssl.SSLContext) == is_encrypted
    if is_encrypted:
        is_verified = arguments["ssl_context"].verify_mode is ssl.CERT_REQUIRED
        assert is_verified == (mode == "")


def test_source_without_tls_is_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgresql://u:p@127.0.0.1:{server.getsockname()[1]}/det?sslmode=verify-full"
        refusing = threading.Thread(target=refuse_tls, args=(server,))
        refusing.start()
        with pytest.raises(DatabaseDown, match=r"sslmode=disable in a network"), source.opened(url):
            pass
        refusing.join()


def refuse_tls(server: socket.socket) -> None:
    """Answer a request for TLS as PostgreSQL without certificates does."""
    connection, _ = server.accept()
    with connection:
        connection.recv(8)
        connection.sendall(b"N")
        connection.recv(1)
