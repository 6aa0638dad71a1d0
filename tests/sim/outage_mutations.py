"""Bugs in the handling of outages, which the simulated worlds must detect.

Some bugs change no result there. Programs of the worlds train every step to the same value, so reports beyond the
start of the next run do no harm. Every agent comes back, so each wait for one ends. tests/db/test_returning_agents.py
and tests/db/test_returning_gangs.py detect these bugs.
"""

from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.core.lifecycle import adoption, agent
from det_controlplane.core.trials.reports import EarlierRun
from det_controlplane.db.agents import agents, lost_runs
from det_controlplane.db.people import sessions
from det_controlplane.db.scheduling import slots
from det_controlplane.db.trials import metrics as metric_rows
from det_controlplane.services.agents import adoption as adoptions
from det_controlplane.services.agents import silence as watching

from tests.sim.mutations import Mutation, nothing, without


def _give_no_grace_after_interruptions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agent, "was_interrupted", lambda *args, **kwargs: False)
    patch.setattr(agent, "lost_after", lambda lease_until, now, wait, since: lease_until + wait)


def _count_silence_that_no_tick_watched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agent, "lost_after", lambda lease_until, now, wait, since: lease_until + wait)


def _lose_suspect_agents_after_a_stall(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agent, "was_interrupted", lambda *args, **kwargs: False)


def _give_back_runs_whose_successor_has_begun(patch: pytest.MonkeyPatch) -> None:
    judge = adoption.obstacle

    def careless(run: Any, container: Any) -> str:
        reason = judge(run, container)
        return "" if "has begun" in reason else reason

    patch.setattr(adoption, "obstacle", careless)


def _count_no_late_report(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EarlierRun, "counts", lambda self, steps: False)


def _give_no_gang_back(patch: pytest.MonkeyPatch) -> None:
    judge = adoption.obstacle

    def strict(run: Any, container: Any) -> str:
        return "it ran on several agents" if run.peers else judge(run, container)

    patch.setattr(adoption, "obstacle", strict)


def _wait_for_no_agent(patch: pytest.MonkeyPatch) -> None:
    find = agents.abandoned_containers
    later = timedelta(days=1)
    patch.setattr(agents, "abandoned_containers", lambda tx, now: find(tx, now + later))
    patch.setattr(lost_runs, "is_awaited", lambda *args: False)


def _ignore_failed_probes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agent.Contact, "is_api_down", lambda self, now: False)


OUTAGE_MUTATIONS = (
    Mutation("agents are lost while only the API is down", _ignore_failed_probes),
    Mutation("silence counts while nothing could be heard", _give_no_grace_after_interruptions),
    Mutation("silence counts while no tick watched", _count_silence_that_no_tick_watched, with_gangs=True),
    Mutation("suspect agents are lost after a stall", _lose_suspect_agents_after_a_stall, with_gangs=True),
    Mutation("runs of returning agents are never given back", nothing(adoptions, "adopt")),
    Mutation(
        "runs are given back though their successor has begun",
        _give_back_runs_whose_successor_has_begun,
    ),
    Mutation("runs that are given back hold no slots", nothing(slots, "reassign")),
    Mutation("tokens of runs that are given back expire", nothing(sessions, "renew_for_task")),
    Mutation("tokens of lost runs expire as others", nothing(sessions, "keep_for_late_reports")),
    Mutation("tokens wait for an agent that has joined", nothing(sessions, "release_waiting")),
    Mutation("no late report counts", _count_no_late_report, with_gangs=True),
    Mutation("what an earlier run reported stays beside the same step", nothing(metric_rows, "archive_older_runs", 0)),
    Mutation("commands that are given back stay ended", nothing(lost_runs, "reopen_task"), with_tasks=True),
    Mutation("gangs are never given back", _give_no_gang_back, with_gangs=True),
    Mutation("gangs that come back wait for no other agent", _wait_for_no_agent, with_gangs=True),
    Mutation(
        "the kill of a gang that goes on is kept",
        without(lost_runs, "_REVIVE", "killed = false, kill_before_exit = false, "),
        with_gangs=True,
    ),
    Mutation("lost agents are never noticed", nothing(watching, "watch")),
)  # fmt: skip
