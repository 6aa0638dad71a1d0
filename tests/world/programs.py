"""The programs in containers: trials that learn, fail and misbehave, and the collection of checkpoints."""

import base64
import json
import math
from random import Random
from typing import Any, Protocol
from uuid import UUID

from tests.world import task_programs
from tests.world.ledger import Run, Saved
from tests.world.script import Call, Reply, Script, Sleep
from tests.world.stage import RunningContainer

_CRASH = 1


class Program(Protocol):
    def script(self) -> Script: ...


def program_of(container: RunningContainer) -> Program:
    if container.spec["task_type"] == "TRIAL":
        return TrialProgram(container)
    if container.spec["task_type"] == "CHECKPOINT_GC":
        return CollectionProgram(container)
    return task_programs.of_task(container)


class CollectionProgram:
    """Deletes the files of checkpoints and says so."""

    def __init__(self, container: RunningContainer) -> None:
        self._container = container

    def script(self) -> Script:
        spec = self._container.spec
        work = json.loads(base64.b64decode(spec["files"][0]["content_b64"]))
        for uuid in work["checkpoints"]:
            yield Sleep(self._container.rng.uniform(0.1, 1))
            body = {"checkpoints": [{"uuid": uuid, "resources": {"resources": {}}}]}
            reply = yield Call("PATCH", "/api/v1/checkpoints", body, spec["session_token"])
            if not reply.ok:
                return _CRASH
            self._container.agent.world.ledger.collected.add(uuid)
        return 0


class TrialProgram:
    """A trial's code on the bundled harness, with a temper drawn for each of its runs."""

    def __init__(self, container: RunningContainer) -> None:
        self._container = container
        self._world = container.agent.world
        self._rng: Random = container.rng
        env = container.spec["env"]
        self._token: str = container.spec["session_token"]
        self._task_id: str = env["DET_TASK_ID"]
        self.trial_id = int(env["DET_TRIAL_ID"])
        self._config: dict[str, Any] = json.loads(env["DET_EXPERIMENT_CONFIG"])
        self._hparams: dict[str, Any] = json.loads(env["DET_HPARAMS"])
        self._seed = int(env["DET_TRIAL_SEED"])
        self._steps = int(env["DET_STEPS_COMPLETED"])
        run_id = int(env["DET_TRIAL_RUN_ID"])
        # An allocation that is withdrawn leaves its id to the next one; the key of its containers is its own.
        key = f"{container.allocation_id}/{env['DET_PEER_KEY']}"
        self._run: Run = self._world.ledger.run_of(key, self.trial_id, run_id)
        self._run.started_from = env.get("DET_LATEST_CHECKPOINT", "")
        self._world.invariants.check_start(self._run)
        self._deaf = self._rng.random() < self._world.rates.program_trouble * 2
        self._says_nothing = self._rng.random() < self._world.rates.program_trouble

    def script(self) -> Script:
        rank = yield from self._rendezvous()
        if rank is None:
            return _CRASH
        if rank > 0:
            return (yield from self._follow())
        code = yield from self._lead()
        self._run.chief_exit = code
        return code

    def _rendezvous(self) -> "Script":
        path = f"{self._allocation}/resources/{self._container.id}/rendezvous"
        reply = yield self._get(path)
        return reply.body["rendezvousInfo"]["rank"] if reply.ok else None

    def _follow(self) -> Script:
        """Wait for the chief's exit, and exit alike: the script of ranks above 0."""
        while self._run.chief_exit is None:
            yield Sleep(2.0)
        return self._run.chief_exit

    def _lead(self) -> Script:
        if self._trouble(1.0):
            return (yield from self._give_up())
        code = yield from (
            self._train_operations() if self._asks_for_lengths else self._train(self._length)
        )
        if code is not None:
            return code
        if not self._container.preempted:
            self._run.ended_well = True
        elif not self._says_nothing:
            yield from self._acknowledge()
        else:
            self._run.ended_well = True
        return 0

    @property
    def _asks_for_lengths(self) -> bool:
        searcher = self._config["searcher"]
        if searcher["name"] == "custom":
            return bool(self._config["data"]["asks_for_lengths"])
        promoted = searcher["name"] in (
            "adaptive_asha",
            "async_halving",
            "local_asha",
            "model_asha",
        )
        return promoted and bool(searcher.get("max_length"))

    @property
    def _length(self) -> int:
        searcher = self._config["searcher"]
        return int(searcher.get("max_time") or self._config["data"]["length"])

    def _train_operations(self) -> Script:
        """Train as harnesses up to 0.37 do: to each operation's length, and say so."""
        path = f"/api/v1/trials/{self.trial_id}/searcher/operation"
        while True:
            reply = yield self._get(path)
            if not reply.ok:
                return _CRASH
            if reply.body["completed"]:
                return (yield from self._wait_to_be_stopped())
            length = int(reply.body["op"]["validateAfter"]["length"])
            code = yield from self._train(length)
            if code is not None:
                return code
            body = {"op": {"length": length}, "searcherMetric": self._loss(length)}
            completed = f"/api/v1/trials/{self.trial_id}/searcher/completed_operation"
            reply = yield self._post(completed, {"completedOperation": body})
            if not reply.ok:
                return _CRASH

    def _wait_to_be_stopped(self) -> Script:
        for _ in range(30):
            if self._container.preempted:
                break
            yield Sleep(1.0)
        return None

    def _train(self, length: int) -> Script:
        chunk = int(self._config["data"]["chunk"])
        while self._steps < length:
            if self._trouble(1.0):
                code = yield from self._misbehave()
                if code is not None:
                    return code
            if self._container.preempted and not self._deaf:
                return (yield from self._stop_as_asked())
            yield Sleep(self._rng.uniform(1, 6))
            self._steps = min(self._steps + chunk, length)
            if not (yield from self._report()):
                return _CRASH
        return None

    def _report(self) -> Script:
        ok = yield from self._metrics("training")
        if ok:
            ok = yield from self._metrics("validation")
        if ok:
            self._run.reported.append((self._steps, self._loss(self._steps)))
        if ok and self._rng.random() < 0.6:
            ok = yield from self._checkpoint()
        return ok

    def _metrics(self, group: str) -> Script:
        loss, steps = self._loss(self._steps), self._steps
        values = {"loss": loss, "batches": steps}
        inner = {
            "trialId": self.trial_id, "trialRunId": self._run.run_id, "stepsCompleted": steps,
            "metrics": {"avgMetrics": values},
        }  # fmt: skip
        if group == "validation":
            self._world.ledger.validations.add((steps, loss))
        path = f"/api/v1/trials/{self.trial_id}/metrics"
        reply = yield self._post(path, {"group": group, "metrics": inner})
        return reply.ok

    def _checkpoint(self) -> Script:
        uuid = str(UUID(int=self._rng.getrandbits(128), version=4))
        self._world.ledger.saved[uuid] = Saved(self._run, self._steps)
        named_body = {
            "uuid": uuid,
            "taskId": self._task_id,
            "allocationId": self._container.allocation_id,
        }
        if self._config["data"].get("announces") and not (yield from self._announce(named_body)):
            return False
        body = {
            **named_body, "resources": {"weights": "10"}, "state": "STATE_COMPLETED",
            "metadata": {"steps_completed": self._steps},
        }  # fmt: skip
        reply = yield self._post("/api/v1/checkpoints", body)
        return reply.ok

    def _announce(self, fields: dict[str, str]) -> Script:
        """Upload after an announcement; return 0 where the program fails in the middle."""
        self._world.ledger.announced[fields["uuid"]] = self.trial_id
        reply = yield self._post("/api/v1/checkpoints", {**fields, "state": "STATE_ACTIVE"})
        yield Sleep(self._rng.uniform(0.5, 5))
        if self._trouble(2.0):
            self._run.crashed = True
            return 0
        return int(reply.ok)

    def _stop_as_asked(self) -> Script:
        if self._says_nothing:
            self._run.ended_well = True
            return 0
        yield from self._acknowledge()
        yield from self._checkpoint()
        return 0

    def _acknowledge(self) -> Script:
        yield self._post(f"{self._allocation}/signals/ack_preemption", {})
        return None

    def _say(self, line: str) -> Script:
        about = {"taskId": self._task_id, "allocationId": self._container.allocation_id}
        reply = yield self._post("/api/v1/task/logs", {"logs": [{**about, "log": line}]})
        if reply.ok:
            self._world.ledger.given_up.setdefault(self.trial_id, self._run.run_id)
        return None

    def _trouble(self, weight: float) -> bool:
        return self._rng.random() < self._world.rates.program_trouble * weight

    def _misbehave(self) -> Script:
        kind = self._rng.choice(("crash", "crash", "hang", "leave"))
        if kind == "crash":
            self._run.crashed = True
            hopeless = self._config["data"].get("hopeless")
            if hopeless is not None and self._rng.random() < 0.9:
                yield from self._say(hopeless)
            return _CRASH
        if kind == "leave":
            self._run.ended_well = True
            return 0
        while not self._world.calm:
            yield Sleep(10.0)
        return None

    def _give_up(self) -> Script:
        """Report invalid hyperparameters. Some programs do not end then."""
        reason = self._rng.choice(("INVALID_HP", "INIT_INVALID_HP"))
        path = f"/api/v1/trials/{self.trial_id}/early_exit"
        reply = yield self._post(path, {"reason": f"EXITED_REASON_{reason}"})
        if reply.ok:
            self._run.gave_up = True
        while self._rng.random() < 0.85:
            yield Sleep(self._rng.uniform(0, 5))
        self._run.ended_well = True
        return 0

    def _loss(self, steps: int) -> float:
        """Return the same loss for the same trial and step in every run."""
        rate = abs(math.log10(self._hparams["lr"]) + 2.5)
        noise = Random(f"{self._seed}/{steps}").uniform(0, 0.1)
        return round(rate + 1 / (1 + steps / 20) + noise, 6)

    @property
    def _allocation(self) -> str:
        return f"/api/v1/allocations/{self._container.allocation_id}"

    def _get(self, path: str) -> Call:
        return Call("GET", path, token=self._token)

    def _post(self, path: str, body: dict[str, Any]) -> Call:
        return Call("POST", path, body, self._token)


__all__ = ["Program", "Reply", "program_of"]
