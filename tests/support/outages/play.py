"""Run kinds of outages on real clusters, all of them at the same time."""

import itertools
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.outages import train
from tests.support.cluster import Cluster
from tests.support.outages.kinds import Kind
from tests.support.outages.outcome import Observation, Outcome, outcome_of
from tests.support.outages.site import Site, SiteAgent, running_site, wait_until
from tests.support.outages.work import Work, pace_of, start_work
from tests.support.processes import eventually

LENGTH_S = 75.0
# The time limit after an outage, for agents with long pauses between attempts and for the rest of the training.
RECOVERY_S = 180.0
# Steps before this time happen before the gates of the work open.
_SOON_S = 0.1
ENDED = ("COMPLETED", "ERROR", "CANCELED")


@dataclass(frozen=True)
class Outage:
    """The length of outages, and the number of pairs of a quick and a slow trial for each agent."""

    length_s: float = LENGTH_S
    pairs: int = 1
    runtime: str = "process"


@dataclass
class _Scene:
    """One kind of outage on its site."""

    kind: Kind
    site: Site
    agent: SiteAgent
    work: Work
    trained: set[str] = field(default_factory=set)
    why: list[str] = field(default_factory=list)


def play(folder: Path, kinds: Sequence[Kind], outage: Outage) -> list[Outcome]:
    """Run all kinds at the same time; kinds of one site share a cluster."""
    return [outcome for each in play_sites(folder, kinds, outage) for outcome in each.result()]


def play_sites(
    folder: Path, kinds: Sequence[Kind], outage: Outage
) -> list["Future[list[Outcome]]"]:
    """Run all kinds; return the outcomes of each site, or the error that stopped it."""
    sites = [(name, list(group)) for name, group in itertools.groupby(kinds, lambda k: k.site)]
    with ThreadPoolExecutor(len(sites)) as threads:
        return [threads.submit(_play_site, folder / name, group, outage) for name, group in sites]


def _play_site(folder: Path, kinds: Sequence[Kind], outage: Outage) -> list[Outcome]:
    pools = [kind.name for kind in kinds]
    supervised = {kind.name for kind in kinds if kind.is_supervised}
    with running_site(folder, pools, supervised, outage.runtime) as (site, agents):
        scenes = [_scene(kind, site, agents[kind.name], outage) for kind in kinds]
        for scene in scenes:
            scene.work.until_in_the_middle()
        log_before = len(site.api_log())
        _interrupt(scenes, outage.length_s)
        for scene in scenes:
            _until_ended(scene.work)
        log = site.api_log()[log_before:].splitlines()
        return [_outcome(scene, outage, log) for scene in scenes]


def _scene(kind: Kind, site: Site, agent: SiteAgent, outage: Outage) -> _Scene:
    folder = site.cluster.folder / "work" / kind.name
    pace = pace_of(outage.length_s, kind.trains_on)
    return _Scene(
        kind, site, agent, start_work(site.cluster, folder, kind.name, pace, outage.pairs)
    )


def _interrupt(scenes: Sequence[_Scene], length_s: float) -> None:
    """Perform every step of the outage at its time, and open the gates of the work."""
    start_time = time.monotonic()
    steps = [
        (step.at * length_s + step.later_s, scene, step.act)
        for scene in scenes
        for step in scene.kind.steps
    ]
    steps.sort(key=lambda step: step[0])

    def take(first_s: float, last_s: float) -> None:
        for moment_s, scene, act in steps:
            if first_s <= moment_s < last_s:
                wait_until(start_time + moment_s)
                act(scene.site, scene.agent)

    take(0, _SOON_S)
    for scene in scenes:
        scene.work.begin()
    take(_SOON_S, length_s)
    wait_until(start_time + length_s)
    for scene in scenes:
        _look(scene)
    # On a busy machine the quick trials take longer, and the outage with them.
    start_time = time.monotonic() - length_s
    take(length_s, math.inf)
    for scene in scenes:
        scene.work.end()


def _look(scene: _Scene) -> None:
    """Record the state just before the end of the outage. Wait for quick trials if they can end during it."""
    work = scene.work
    if scene.kind.trains_on:
        quick = [name for name in work.trials if name.startswith(train.QUICK)]
        eventually(lambda: work.trained().issuperset(quick), RECOVERY_S)
    scene.trained |= work.trained()
    if scene.kind.api_works:
        scene.why += why_of(scene.site.cluster, work)


def why_of(cluster: Cluster, work: Work) -> list[str]:
    reasons = cluster.get(f"/api/v1/why/experiment/{work.experiment}")["reasons"]
    return [str(reason["sentence"]) for reason in reasons]


def _until_ended(work: Work) -> None:
    """Wait until all work has ended, up to a time limit. The claims also judge unfinished work."""
    cluster = work.cluster

    def command(id: str) -> str:
        return str(cluster.get(f"/api/v1/commands/{id}")["command"]["state"])

    def ended() -> bool:
        return (
            _plain(cluster.experiment(work.experiment)["state"]) in ENDED
            and command(work.command) == "STATE_TERMINATED"
            and bool(cluster.get(f"/api/v1/tasks/{work.task}")["task"].get("endTime"))
            and (command(work.lasting) == "STATE_TERMINATED" or work.serves())
        )

    with suppress(AssertionError):
        cluster.until(ended, f"the work of {work.pool} has ended", RECOVERY_S)


def _plain(state: str) -> str:
    return str(state).removeprefix("STATE_")


def _outcome(scene: _Scene, outage: Outage, log: list[str]) -> Outcome:
    agent = scene.agent.id
    lost_lines = [line for line in log if f"agent {agent} was lost" in line]
    observation = Observation(scene.trained, lost_lines, scene.why)
    outcome = outcome_of(scene.work, scene.kind, agent, outage.length_s, observation)
    # The agent would wait for this command when it is stopped.
    scene.site.cluster.post(f"/api/v1/commands/{scene.work.lasting}/kill", {})
    return outcome
