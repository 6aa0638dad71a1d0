"""Previews: checkpoints that a policy would delete, trials that a search would run."""

from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.http import Answer, Request, json_response
from det_controlplane.api.router import Unaudited, get, post
from det_controlplane.core.checkpoints.gc import Policy
from det_controlplane.core.people.permissions import TaskRule, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import previews


@dataclass(frozen=True)
class PolicyQuery:
    save_experiment_best: int = field(default=0, metadata={"name": "save_experiment_best"})
    save_trial_best: int = field(default=0, metadata={"name": "save_trial_best"})
    save_trial_latest: int = field(default=0, metadata={"name": "save_trial_latest"})


@dataclass(frozen=True)
class SearchPreview:
    config: dict[str, Any] = field(default_factory=dict)


def preview_gc(ctx: Context, request: Request, query: PolicyQuery) -> Answer:
    policy = Policy(
        save_experiment_best=query.save_experiment_best,
        save_trial_best=query.save_trial_best,
        save_trial_latest=query.save_trial_latest,
    )
    return json_response(previews.collected(ctx, request.id("experimentId"), policy))


def preview_search(ctx: Context, request: Request, body: SearchPreview) -> Answer:
    return json_response({"summary": previews.search_summary(ctx, body.config)})


ROUTES = (
    post(
        "/api/v1/preview-hp-search",
        preview_search,
        summary="How many trials train how long",
        rule=require(task=TaskRule.READ),
        audit=Unaudited.NO_CHANGE,
    ),
    get(
        "/experiments/{experimentId}/preview_gc",
        preview_gc,
        summary="Checkpoints that a retention policy would delete",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "experiment", "experimentId"),
            task=TaskRule.READ,
        ),
    ),
)
