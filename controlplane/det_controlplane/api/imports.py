"""Imports of other clusters, and the new ids of their objects."""

from dataclasses import dataclass

from det_controlplane.api.http import Answer, Request, json_response
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, require
from det_controlplane.services.context import Context
from det_controlplane.services.importing import lookup


@dataclass(frozen=True)
class OldId:
    reference: str
    kind: str = "experiment"


def list_imports(ctx: Context, request: Request) -> Answer:
    return json_response({"imports": lookup.listed(ctx)})


def resolve_id(ctx: Context, request: Request, query: OldId) -> Answer:
    return json_response({"id": lookup.resolve(ctx, query.kind, query.reference)})


_READ = require(task=TaskRule.READ)
ROUTES = (
    get("/api/v1/imports", list_imports, summary="List the imports of other clusters", rule=_READ),
    get(
        "/api/v1/imports/new-id",
        resolve_id,
        summary="Find an imported experiment or trial by its old id, such as old:17",
        rule=_READ,
    ),
)
