"""Every route of the API."""

from det_controlplane.api import (
    agent_protocol,
    allocations,
    auth,
    cluster,
    experiments,
    logs,
    tasks,
    trials,
)
from det_controlplane.api.router import Route, routes

ALL: tuple[Route, ...] = routes(
    cluster.ROUTES,
    auth.ROUTES,
    experiments.ROUTES,
    trials.ROUTES,
    allocations.ROUTES,
    tasks.ROUTES,
    logs.ROUTES,
    agent_protocol.ROUTES,
)
