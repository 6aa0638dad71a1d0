"""Looking at experiments, trials and checkpoints."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.checkpoints import checkpoint_pages
from det_controlplane.db.engine.database import as_json
from det_controlplane.db.experiments import experiment_pages
from det_controlplane.db.experiments import experiments as rows
from det_controlplane.db.experiments.experiment_pages import ShownExperiment
from det_controlplane.db.trials import trial_pages
from det_controlplane.services.checkpoints.records import parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, require
from det_controlplane.services.principal import User


def experiments(ctx: Context, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return experiment_pages.find(ctx.db, page, sort, filters)


def experiment(ctx: Context, experiment_id: int) -> ShownExperiment:
    with ctx.db.autocommit() as tx:
        return require(experiment_pages.one(tx, experiment_id), f"experiment {experiment_id}")


def experiment_as_seen_by(ctx: Context, user: User, experiment_id: int) -> ShownExperiment:
    """Return an experiment, with the values of environment variables for its owner."""
    view = experiment(ctx, experiment_id)
    if not view.sealed or not user.is_person(view.user_id):
        return view
    # It loads pydantic, which a function that only reads experiments does not need.
    from det_controlplane.services import sealing

    config = sealing.as_seen_by_owner(ctx, json.loads(view.config), view.sealed)
    values = {**json.loads(view.shown), "config": config}
    return replace(view, shown=as_json(values), config=as_json(config))


def revision(ctx: Context, experiment_id: int) -> str:
    """Return a version that changes whenever something of the experiment does: open pages ask for it, as it is cheap."""
    with ctx.db.autocommit() as tx:
        return require(
            experiment_pages.progress(tx, [experiment_id]).revision or None,
            f"experiment {experiment_id}",
        )


def blank_experiment(config: dict[str, Any]) -> dict[str, Any]:
    """Return the experiment in the answer to a validation, which makes none."""
    return {
        "id": 0, "name": config.get("name") or "", "state": "STATE_UNSPECIFIED", "archived": False,
        "config": config, "jobId": "", "numTrials": 0, "originalConfig": "", "projectId": 0,
        "projectOwnerId": 0, "searcherType": "", "startTime": "1970-01-01T00:00:00Z", "username": "",
        "labels": [], "trialIds": [], "description": "", "notes": "",
    }  # fmt: skip


def trials(
    ctx: Context, page: Page, sort: Sort, experiment_id: int, states: Sequence[str]
) -> Iterator[str]:
    with ctx.db.autocommit() as tx:
        if not rows.exists(tx, experiment_id):
            raise Missing(f"experiment {experiment_id} not found")
    return trial_pages.listed(ctx.db, page, sort, experiment_id, states)


def trial(ctx: Context, trial_id: int) -> str:
    with ctx.db.autocommit() as tx:
        return require(trial_pages.one(tx, trial_id), f"trial {trial_id}")


def checkpoints(
    ctx: Context, page: Page, sort: Sort, owner: str, owner_id: int, states: Sequence[str]
) -> Iterator[str]:
    exists = rows.exists if owner == "experiment_id" else rows.trial_exists
    with ctx.db.autocommit() as tx:
        if not exists(tx, owner_id):
            raise Missing(f"{owner.removesuffix('_id')} {owner_id} not found")
    return checkpoint_pages.listed(ctx.db, page, sort, owner, owner_id, states)


def checkpoint(ctx: Context, uuid: str) -> str:
    with ctx.db.autocommit() as tx:
        return require(checkpoint_pages.one(tx, parse_uuid(uuid)), f"checkpoint {uuid}")


def labels(ctx: Context, project_id: int, within: Sequence[int] | None) -> list[str]:
    """Return labels of experiments in some workspaces (None: all), the most used first; 0 stands for every project."""
    with ctx.db.autocommit() as tx:
        return rows.labels(tx, project_id, within)


def trial_by_external_id(ctx: Context, experiment: str, trial: str) -> str:
    with ctx.db.autocommit() as tx:
        trial_id = rows.trial_by_external_id(tx, experiment, trial)
        view = None if trial_id is None else trial_pages.one(tx, trial_id)
    return require(view, f"trial '{trial}' of experiment '{experiment}'")


def best_searcher_metric(ctx: Context, experiment_id: int) -> float:
    with ctx.db.autocommit() as tx:
        if not rows.exists(tx, experiment_id):
            raise Missing(f"experiment {experiment_id} not found")
        best = rows.best_metric(tx, experiment_id)
    if best is None:
        raise Missing(f"experiment {experiment_id} has no validation yet")
    return best
