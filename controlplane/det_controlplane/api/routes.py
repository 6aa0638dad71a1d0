"""Every route of the API."""

from det_controlplane.api import (
    agent_protocol,
    agents,
    allocations,
    auth,
    cluster,
    experiments,
    jobs,
    logs,
    tasks,
    trials,
    why,
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
    agents.ROUTES,
    jobs.ROUTES,
    why.ROUTES,
    agent_protocol.ROUTES,
)
