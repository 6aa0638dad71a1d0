"""Deliberate bugs of elastic gangs."""

import pytest
from det_controlplane.core.schedule import Request
from det_controlplane.db.tasks import containers as container_rows
from det_controlplane.services.agents import containers

from tests.sim.mutations import Mutation, count_a_lost_agent_as_a_failure, nothing, without


def _start_below_the_minimum(patch: pytest.MonkeyPatch) -> None:
    least = property(lambda request: request.slots if request.min_slots is None else 1)
    patch.setattr(Request, "least_slots", least)


def _give_up_ranks_on_agents_that_poll(patch: pytest.MonkeyPatch) -> None:
    without(container_rows, "_SILENT", " AND g.last_seen_at < f.failed_at")(patch)
    patch.setattr(containers, "_suspect_agent", lambda *args: True)


ELASTIC_MUTATIONS = (
    Mutation("elastic gangs start below their minimum", _start_below_the_minimum, is_elastic=True),
    Mutation(
        "ranks on agents that poll are given up",
        _give_up_ranks_on_agents_that_poll,
        is_elastic=True,
    ),
    Mutation(
        "elastic gangs wait for silent agents",
        nothing(containers, "end_silent_ranks"),
        is_elastic=True,
    ),
    Mutation(
        "the loss of a rank counts as a restart",
        count_a_lost_agent_as_a_failure,
        is_elastic=True,
    ),
)
