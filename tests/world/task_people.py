"""People who work with commands, notebooks and trees of generic tasks beside experiments."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.world.hosts import USER_TOKEN
from tests.world.script import Call, Play, Reply, Script, Sleep
from tests.world.stage import Stage
from tests.world.violation import Violation

_V = "/api/v1"
_MOST = 8
_IDLE_TIMEOUTS = (20, 45, 90)


class TaskUser:
    """Launches tasks, grows trees of them, pauses, continues and kills."""

    def __init__(self, world: Stage, number: int) -> None:
        self._world = world
        self._name = f"task-user-{number}"
        self._rng: Random = world.stream(self._name)
        self._launched = 0
        self._interactive: list[str] = []  # their paths
        self._generic: list[str] = []

    def begin(self) -> None:
        self._play(self._everyday())

    def calm_down(self) -> None:
        self._play(self._last_wishes())

    def _play(self, script: Script) -> None:
        Play(self._world.timeline, self._world.network.send, script, lambda code: None).start()

    def _everyday(self) -> Script:
        while not self._world.calm:
            yield Sleep(self._rng.expovariate(1 / 8))
            act = self._rng.choices(_ACTS, _WEIGHTS)[0]
            if not self._world.calm:
                yield from act(self)
        return None

    def _last_wishes(self) -> Script:
        """Unpause most of the paused tasks."""
        yield Sleep(30.0)
        for task_id in self._generic:
            if self._rng.random() < 0.7:
                yield self._post(f"/tasks/{task_id}/unpause")
        return None

    def _command(self) -> Script:
        yield from self._launch("command", {"entrypoint": ["true"], **self._config()})
        return None

    def _notebook(self) -> Script:
        timeout = self._rng.choice(_IDLE_TIMEOUTS)
        yield from self._launch("notebook", {"idle_timeout": f"{timeout}s", **self._config()})
        return None

    def _tree(self) -> Script:
        """Submit a generic task: one by itself, or the child of another."""
        own = {"entrypoint": ["true"], "preemption_timeout": self._rng.choice((5, 30))}
        config = {**own, **self._config()}
        body: dict[str, Any] = {"config": json.dumps(config), "noPause": self._rng.random() < 0.2}
        if self._generic and self._rng.random() < 0.7:
            body["parentId"] = self._rng.choice(self._generic)
        reply = yield from self._asked("/generic-tasks", body)
        if reply is not None and reply.ok:
            self._generic.append(reply.body["taskId"])
            self._world.ledger.tasks.created.add(reply.body["taskId"])
        elif reply is not None and not _may_refuse(reply):
            raise Violation(f"{body} was refused: {reply.body}")
        return None

    def _launch(self, name: str, config: dict[str, Any]) -> Script:
        reply = yield from self._asked(f"/{name}s", {"config": config})
        if reply is not None and reply.ok:
            task_id = reply.body[name]["id"]
            self._interactive.append(f"/{name}s/{task_id}")
            self._world.ledger.tasks.created.add(task_id)
        elif reply is not None and "slots" not in str(reply.body):
            raise Violation(f"{config} was refused: {reply.body}")
        return None

    def _asked(self, path: str, body: dict[str, Any]) -> Any:
        """Send the same request until it is answered: its key makes one task of it."""
        if self._launched >= _MOST:
            return None
        self._launched += 1
        headers = {"idempotency-key": f"{self._name}-{self._launched}"}
        while True:
            reply = yield Call("POST", _V + path, body, USER_TOKEN, headers)
            if not reply.unavailable:
                return reply
            yield Sleep(2.0)

    def _kill(self) -> Script:
        if self._interactive:
            yield self._post(f"{self._rng.choice(self._interactive)}/kill")
        return None

    def _kill_tree(self) -> Script:
        if self._generic:
            task_id = self._rng.choice(self._generic)
            reply = yield self._post(f"/tasks/{task_id}/kill", {"killFromRoot": False})
            if reply.ok:
                self._world.ledger.tasks.killed.add(task_id)
        return None

    def _pause(self) -> Script:
        yield from self._steer("pause")
        return None

    def _unpause(self) -> Script:
        yield from self._steer("unpause")
        return None

    def _steer(self, verb: str) -> Script:
        if self._generic:
            yield self._post(f"/tasks/{self._rng.choice(self._generic)}/{verb}")
        return None

    def _config(self) -> dict[str, Any]:
        """Return a configuration with the common keys of tasks; the description identifies the launch."""
        slots = self._rng.choice((0, 0, 1, self._world.agents[0].slots))
        resources: dict[str, Any] = {"slots": slots}
        if self._rng.random() < 0.4:
            resources["priority"] = self._rng.choice((10, 42, 60))
        return {"description": f"{self._name}-{self._launched}", "resources": resources}

    def _post(self, path: str, body: dict[str, Any] | None = None) -> Call:
        return Call("POST", _V + path, body or {}, USER_TOKEN)


def _may_refuse(reply: Reply) -> bool:
    """Return whether a refusal is right: a parent ended or pauses, or no agent that has joined has the slots."""
    message = str(reply.body)
    return "no more children" in message or "unpause it first" in message or "slots" in message


_CHANCES: dict[Callable[[TaskUser], Script], int] = {
    TaskUser._command: 2,
    TaskUser._notebook: 2,
    TaskUser._tree: 6,
    TaskUser._kill: 1,
    TaskUser._kill_tree: 2,
    TaskUser._pause: 3,
    TaskUser._unpause: 4,
}
_ACTS, _WEIGHTS = list(_CHANCES), list(_CHANCES.values())
