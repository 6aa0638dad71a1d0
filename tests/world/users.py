"""Fake users: they create, watch, change their minds, and at the end clean up."""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.world.configurations import experiment_config
from tests.world.hosts import USER_TOKEN
from tests.world.script import Call, Play, Reply, Script, Sleep
from tests.world.search_methods import FakeSearchMethod
from tests.world.stage import Stage

_E = "/api/v1/experiments"
_MOST_EXPERIMENTS = 3


class FakeUser:
    _pace_s = 12.0  # between two acts, on average

    def __init__(self, world: Stage, number: int, token: str = USER_TOKEN) -> None:
        self._world = world
        self._token = token
        self._name = f"user-{number}"
        self._rng: Random = world.stream(self._name)
        self._mine: list[int] = []
        self._submitted = 0

    def begin(self) -> None:
        self._play(self._everyday())

    def calm_down(self) -> None:
        self._play(self._last_wishes())

    def _play(self, script: Script) -> None:
        Play(self._world.timeline, self._world.network.send, script, _nothing).start()

    def _everyday(self) -> Script:
        yield from self._create()
        while not self._world.calm:
            yield Sleep(self._rng.expovariate(1 / self._pace_s))
            act = self._rng.choices(_ACTS, _WEIGHTS)[0]
            if not self._world.calm:
                yield from act(self)
        return None

    def _create(self) -> Script:
        """Create by the same request until it is answered: its key makes one experiment of it."""
        if self._submitted >= _MOST_EXPERIMENTS:
            return None
        self._submitted += 1
        body = {"config": self._config(), "activate": self._rng.random() < 0.85}
        headers = {"idempotency-key": f"{self._name}-{self._submitted}"}
        reply = yield Call("POST", _E, body, self._token, headers)
        while reply.unavailable:
            yield Sleep(2.0)
            reply = yield Call("POST", _E, body, self._token, headers)
        if reply.ok:
            id = int(reply.body["experiment"]["id"])
            self._mine.append(id)
            self._world.ledger.experiments.add(id)
            if reply.body["config"]["searcher"]["name"] == "custom":
                FakeSearchMethod(self._world, id).begin()
        elif "currently" not in str(reply.body) and not self._may_be_refused(reply):
            raise AssertionError(f"{body['config']} was refused: {reply.body}")
        return None

    def _config(self) -> str:
        agents = self._world.agents
        return experiment_config(self._rng, agents[0].slots, len(agents))

    def _may_be_refused(self, reply: Reply) -> bool:
        """Allow a refusal for slots: agents that did not join yet do not count, and a cluster too small says so."""
        return "slots" in str(reply.body)

    def _command(self, verb: str) -> Script:
        id = self._one_of_mine()
        if id is not None:
            if verb in ("cancel", "kill"):
                self._world.ledger.ending.add(id)
            yield self._post(f"{_E}/{id}/{verb}")
        return None

    def _pause(self) -> Script:
        yield from self._command("pause")
        return None

    def _activate(self) -> Script:
        yield from self._command("activate")
        return None

    def _cancel(self) -> Script:
        yield from self._command("cancel")
        return None

    def _kill(self) -> Script:
        yield from self._command("kill")
        return None

    def _archive(self) -> Script:
        yield from self._command(self._rng.choice(("archive", "unarchive")))
        return None

    def _delete(self) -> Script:
        id = self._one_of_mine()
        if id is not None:
            self._world.ledger.deleting.add(id)
            yield Call("DELETE", f"{_E}/{id}", token=self._token)
        return None

    def _kill_trial(self) -> Script:
        yield self._post(f"/api/v1/trials/{self._rng.randint(1, 8)}/kill")
        return None

    def _change_resources(self) -> Script:
        id = self._one_of_mine()
        change: dict[str, Any] = self._rng.choice(
            ({"priority": self._rng.choice((1, 42, 99))}, {"weight": 2.5}, {"maxSlots": 2})
        )
        if id is not None:
            yield Call("PATCH", f"{_E}/{id}", {"resources": change}, self._token)
        return None

    def _move_in_queue(self) -> Script:
        reply = yield Call("GET", "/api/v1/job-queues-v2", token=self._token)
        jobs = [j["full"]["jobId"] for j in reply.body.get("jobs", ())]
        if len(jobs) >= 2:
            job, anchor = self._rng.sample(jobs, 2)
            direction = self._rng.choice(("aheadOf", "behindOf"))
            yield self._post("/api/v1/job-queues", {"updates": [{"jobId": job, direction: anchor}]})
        return None

    def _trouble_agents(self) -> Script:
        agent = self._rng.choice(self._world.agents)
        path = f"/api/v1/agents/{agent.id}"
        if self._rng.random() < 0.5:
            path += f"/slots/{self._rng.randrange(agent.slots)}"
        verb = self._rng.choice(("enable", "enable", "disable"))
        yield self._post(f"{path}/{verb}", {"drain": self._rng.random() < 0.5})
        return None

    def _last_wishes(self) -> Script:
        """Enable all agents and slots, and activate most paused work."""
        yield Sleep(30.0)
        for agent in self._world.agents:
            yield from self._until_ok(f"/api/v1/agents/{agent.id}/enable")
            for slot in range(agent.slots):
                yield from self._until_ok(f"/api/v1/agents/{agent.id}/slots/{slot}/enable")
        for id in self._mine:
            yield from self._lift_limit(id)
            if self._rng.random() < 0.7:
                yield self._post(f"{_E}/{id}/activate")
        return None

    def _lift_limit(self, id: int) -> Script:
        """Let trials start in experiments with a `max_slots` below the size of a trial."""
        change = Call("PATCH", f"{_E}/{id}", {"resources": {"maxSlots": 100}}, self._token)
        while (yield change).unavailable:
            yield Sleep(5.0)
        return None

    def _until_ok(self, path: str) -> Script:
        while not (yield self._post(path)).ok:
            yield Sleep(5.0)
        return None

    def _one_of_mine(self) -> int | None:
        return self._rng.choice(self._mine) if self._mine else None

    def _post(self, path: str, body: dict[str, Any] | None = None) -> Call:
        return Call("POST", path, body or {}, self._token)


def _nothing(code: int | None) -> None:
    return None


_CHANCES: dict[Callable[[FakeUser], Script], int] = {
    FakeUser._create: 4,
    FakeUser._pause: 3,
    FakeUser._activate: 5,
    FakeUser._cancel: 1,
    FakeUser._kill: 1,
    FakeUser._archive: 1,
    FakeUser._delete: 2,
    FakeUser._kill_trial: 1,
    FakeUser._change_resources: 2,
    FakeUser._move_in_queue: 2,
    FakeUser._trouble_agents: 2,
}
_ACTS, _WEIGHTS = list(_CHANCES), list(_CHANCES.values())
