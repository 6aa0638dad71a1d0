"""Triggers keep the numbers of trials and checkpoints of each experiment; a repair fixes wrong ones."""

import threading
import uuid
from dataclasses import astuple

from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.db.experiments import counts, deletion_parts
from det_controlplane.services.context import Context
from det_controlplane.services.maintenance import counts as maintenance
from det_controlplane.services.principal import User
from sqlalchemy import text

from tests.support.searching import ASHA, SINGLE, Running, running

ADMIN = User(1, "admin", True, 0)
_COUNTS = text("""
    SELECT n.project_id, n.trials, k.complete, k.size FROM trial_counts n
    JOIN checkpoint_counts k ON k.experiment_id = n.experiment_id WHERE n.experiment_id = :id
""")
_CHECKPOINT = text("""
    INSERT INTO checkpoints (uuid, trial_id, experiment_id, state, size, reported_at)
    VALUES (:uuid, :trial, :experiment, cast(:state AS checkpoint_state), :size, now())
""")
_CHANGE = text(
    "UPDATE checkpoints SET state = cast(:state AS checkpoint_state), size = :size WHERE uuid = :uuid"
)
_ADD_TRIAL = text("""
    INSERT INTO trials (experiment_id, request_id, state, hparams, seed, task_id, started_at)
    VALUES (:id, gen_random_uuid(), 'ACTIVE', '{}', 1, gen_random_uuid(), now())
""")
_PROJECT = text("""
    INSERT INTO projects (workspace_id, name, key, user_id) VALUES (1, 'other', 'OTHER', 1) RETURNING id
""")
_MOVE = text("UPDATE experiments SET project_id = :project")
_BREAK = text("UPDATE trial_counts SET trials = trials + 7 WHERE experiment_id = :id")
_FORGET = text("DELETE FROM checkpoint_counts WHERE experiment_id = :id")


def kept(ctx: Context, experiment: Running) -> tuple[int, ...] | None:
    row = next(iter(ctx.db.read(_COUNTS, {"id": experiment.id})), None)
    return None if row is None else tuple(row)


def save(ctx: Context, experiment: Running, state: CheckpointState, size: int) -> str:
    checkpoint_uuid = str(uuid.uuid4())
    with ctx.db.begin() as tx:
        values = {
            "uuid": checkpoint_uuid,
            "trial": experiment.trials[0],
            "experiment": experiment.id,
        }
        tx.execute(_CHECKPOINT, {**values, "state": state.value, "size": size})
    return checkpoint_uuid


def change(ctx: Context, checkpoint: str, state: CheckpointState, size: int) -> None:
    with ctx.db.begin() as tx:
        tx.execute(_CHANGE, {"uuid": checkpoint, "state": state.value, "size": size})


def test_trials_of_a_search_are_counted(ctx: Context) -> None:
    search, single = running(ctx, ASHA.format(trials=8)), running(ctx, SINGLE)
    assert kept(ctx, search) == (1, 8, 0, 0)
    assert kept(ctx, single) == (1, 1, 0, 0)


def test_checkpoints_are_counted_by_state(ctx: Context) -> None:
    experiment = running(ctx, SINGLE)
    first = save(ctx, experiment, CheckpointState.COMPLETED, 100)
    second = save(ctx, experiment, CheckpointState.ACTIVE, 5)
    assert kept(ctx, experiment) == (1, 1, 1, 100)
    change(ctx, second, CheckpointState.COMPLETED, 50)
    assert kept(ctx, experiment) == (1, 1, 2, 150)
    change(ctx, first, CheckpointState.PARTIALLY_DELETED, 30)
    assert kept(ctx, experiment) == (1, 1, 1, 80)
    change(ctx, first, CheckpointState.DELETED, 30)
    assert kept(ctx, experiment) == (1, 1, 1, 50)


def test_deleting_a_trial_subtracts_its_checkpoints_from_the_counts(ctx: Context) -> None:
    experiment = running(ctx, ASHA.format(trials=4))
    save(ctx, experiment, CheckpointState.COMPLETED, 100)
    with ctx.db.begin() as tx:
        tx.execute(text("DELETE FROM trials WHERE id = :id"), {"id": experiment.trials[0]})
    assert kept(ctx, experiment) == (1, 3, 0, 0)


def test_deleting_an_experiment_deletes_its_counts(ctx: Context) -> None:
    experiment = running(ctx, SINGLE)
    save(ctx, experiment, CheckpointState.COMPLETED, 100)
    with ctx.db.begin() as tx:
        tx.execute(text("UPDATE experiments SET state = 'DELETING', ended_at = now()"))
        deletion_parts.delete_experiment(tx, experiment.id)
    assert kept(ctx, experiment) is None


def test_counts_follow_an_experiment_to_another_project(ctx: Context) -> None:
    experiment = running(ctx, SINGLE)
    with ctx.db.begin() as tx:
        project = tx.execute(_PROJECT).scalar_one()
        tx.execute(_MOVE, {"project": project})
    assert kept(ctx, experiment) == (project, 1, 0, 0)


def test_a_check_names_wrong_numbers_and_a_repair_replaces_them(ctx: Context) -> None:
    right, wrong = running(ctx, SINGLE), running(ctx, SINGLE)
    save(ctx, wrong, CheckpointState.COMPLETED, 100)
    assert maintenance.differences(ctx, ADMIN) == []
    with ctx.db.begin() as tx:
        tx.execute(_BREAK, {"id": wrong.id})
        tx.execute(_FORGET, {"id": wrong.id})
    difference = (wrong.id, 8, 1, None, 1, None, 100)
    assert [astuple(d) for d in maintenance.differences(ctx, ADMIN)] == [difference]
    assert [astuple(d) for d in maintenance.repair(ctx, ADMIN)] == [difference]
    assert maintenance.differences(ctx, ADMIN) == []
    assert (kept(ctx, right), kept(ctx, wrong)) == ((1, 1, 0, 0), (1, 1, 1, 100))


def test_trial_added_during_a_repair_is_counted_once(ctx: Context) -> None:
    experiment = running(ctx, SINGLE)
    with ctx.db.begin() as tx:
        tx.execute(_ADD_TRIAL, {"id": experiment.id})
        repair = threading.Thread(target=lambda: maintenance_repair(ctx, experiment.id))
        repair.start()
        while not ctx.db.read(text("SELECT 1 FROM pg_locks WHERE NOT granted")):
            assert repair.is_alive()
    repair.join(60)
    assert kept(ctx, experiment) == (1, 2, 0, 0)


def maintenance_repair(ctx: Context, experiment_id: int) -> None:
    with ctx.db.begin() as tx:
        counts.repair(tx, [experiment_id])
