"""The simulated world of several people: roles, clocks that differ, two pools, cut-off uploads, log policies."""

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from det_controlplane.core.config.cluster import Authz
from det_controlplane.services.checkpoints.collection import CUT_OFF_AFTER
from det_controlplane.services.identity.authentication import token_hash
from det_controlplane.services.maintenance import housekeeping
from sqlalchemy import text

from tests.world.agents import FakeAgent
from tests.world.configurations import cluster_config, experiment_config
from tests.world.invariants import Invariants
from tests.world.script import Call, Reply, Script, Sleep
from tests.world.users import FakeUser
from tests.world.violation import Violation
from tests.world.world import World

POOLS = ("default", "other")
HOPELESS = "the data set is gone"
_SKEW_S = 2.0
_EDITOR, _VIEWER, _STRANGER = "an editor", "a viewer", "a stranger"
_ROLES = {_EDITOR: "Editor", _VIEWER: "Viewer", _STRANGER: ""}
_ANY = "name: x\nentrypoint: x\nsearcher: {name: single, metric: x}"
_USER = text("INSERT INTO users (username) VALUES (:name) ON CONFLICT (username) DO NOTHING")
_SIGN_IN = text("""
    INSERT INTO sessions (token_hash, kind, user_id, created_at)
    SELECT :hash, 'user', id, :now FROM users WHERE username = :name
""")
_GIVE = text("""
    INSERT INTO role_assignments (role, user_id, workspace_id) SELECT :role, id, 1 FROM users WHERE username = :name
""")
_CHECKPOINTS = text("SELECT uuid::text AS uuid, state::text AS state FROM checkpoints")
_FAILED_RUNS = text("""
    SELECT trial_id, run_id FROM allocations WHERE trial_id IS NOT NULL AND exit_kind = 'failed'
""")


class Editor(FakeUser):
    """A user who works as others do, but never disables agents."""

    def _trouble_agents(self) -> Script:
        yield Sleep(0.0)
        return None

    def _last_wishes(self) -> Script:
        for id in self._mine:
            yield from self._lift_limit(id)
            yield self._post(f"/api/v1/experiments/{id}/activate")
        return None


class Intruder:
    """A caller that tries requests it has no right to; any that is granted breaks the rules."""

    def __init__(self, world: World, token: str, *, sees: bool) -> None:
        self._world, self._token, self._sees = world, token, sees
        self._rng: Random = world.stream(token)

    def begin(self) -> None:
        self._world.timeline.after(self._rng.expovariate(1 / 8), self._try)

    def calm_down(self) -> None:
        return None

    def _try(self) -> None:
        if not self._world.calm:
            self.begin()
            call, allowed = self._drawn()
            judge = partial(self._judge, call, allowed)
            self._world.network.send(call, lambda reply: None, judge)

    def _judge(self, call: Call, allowed: bool, reply: Reply) -> None:
        if reply.ok and not allowed:
            raise Violation(f"{self._token} was granted {call.method} {call.path}: {reply.body}")
        if reply.status in (401, 403, 404) and allowed and "not found" not in str(reply.body):
            raise Violation(f"{self._token} was refused {call.method} {call.path}: {reply.body}")

    def _drawn(self) -> tuple[Call, bool]:
        number = self._rng.randint(1, 6)
        experiment, trial = f"/api/v1/experiments/{number}", f"/api/v1/trials/{number}"
        metrics = {
            "group": "validation",
            "metrics": {"trialId": number, "trialRunId": 1, "stepsCompleted": 1},
        }
        changes: list[Call] = [
            Call("POST", f"{experiment}/{verb}", {})
            for verb in ("kill", "pause", "activate", "archive")
        ]
        changes += [
            Call("DELETE", experiment),
            Call("POST", f"{trial}/kill", {}),
            Call("POST", f"{trial}/metrics", metrics),
            Call("POST", "/api/v1/experiments", {"config": _ANY}),
            Call("POST", "/api/v1/agents/agent-0/disable", {}),
            Call("DELETE", "/api/v1/checkpoints", {"checkpointUuids": sorted(self._world.ledger.announced)[:1]}),
        ]  # fmt: skip
        looks = [Call("GET", path) for path in (experiment, trial, f"{experiment}/checkpoints")]
        if self._rng.random() < 0.3:
            return replace(self._rng.choice(looks), token=self._token), self._sees
        call = self._rng.choice(changes)
        selects_nothing = call.body is not None and call.body.get("checkpointUuids") == []
        return replace(call, token=self._token), selects_nothing


class CrowdedWorld(World):
    """`CrowdedWorld(seed, hosts).run()` plays one history."""

    def _populate(self) -> None:
        rng = self.stream("crowd")
        config = replace(cluster_config(self.stream("cluster")), authz=Authz.RBAC)
        default = config.resource_pools[0]
        pools = tuple(replace(default, pool_name=name) for name in POOLS)
        self._configure(replace(config, resource_pools=pools))
        self._let_clocks_differ(rng)
        self.invariants = Invariants(
            self._hosts, self.ledger, self.timeline, skew_s=2 * _SKEW_S + 1
        )
        self._sign_in()
        slots = rng.choice((1, 2, 4))
        self.agents += [
            FakeAgent(self, f"agent-{n}", slots, POOLS[n % 2]) for n in range(rng.randint(2, 4))
        ]
        people = [FakeUser(self, 0), Editor(self, 1, _EDITOR)]
        for person in people:
            person._config = partial(_experiment, person._rng, slots)  # type: ignore[method-assign]
        self.actors += [*self.agents, *people]
        self.actors += [Intruder(self, _VIEWER, sees=True), Intruder(self, _STRANGER, sees=False)]

    def _let_clocks_differ(self, rng: Random) -> None:
        for process in self._hosts.processes:
            skew = timedelta(seconds=rng.uniform(-_SKEW_S, _SKEW_S))
            process.ctx.now = partial(_skewed, self, skew)

    def _sign_in(self) -> None:
        with self._hosts.observed() as tx:
            for name, role in _ROLES.items():
                about = {"name": name, "hash": token_hash(name), "now": self.timeline.now()}
                tx.execute(_USER, {"name": name})
                tx.execute(_SIGN_IN, about)
                if role:
                    tx.execute(_GIVE, {"name": name, "role": role})

    def _check_end(self) -> None:
        super()._check_end()
        self._check_given_up()
        uuids = set(self.ledger.announced)
        self._collect()
        with self._hosts.observed() as tx:
            states = {row.uuid: row.state for row in tx.execute(_CHECKPOINTS)}
        for uuid, state in states.items():
            # Users also activate paused work after the two days, which uploads its code again.
            if state == "ACTIVE" and uuid in uuids:
                raise Violation(f"checkpoint {uuid} was cut off and nobody collects it")
            if state == "COMPLETED" and uuid in self.ledger.collected:
                raise Violation(f"checkpoint {uuid} is complete and its files are gone")
            if state == "DELETED" and uuid not in self.ledger.collected:
                raise Violation(f"checkpoint {uuid} is said to be deleted and its files are there")

    def _check_given_up(self) -> None:
        """Check that no run follows one that failed and had said that no retry helps."""
        with self._hosts.observed() as tx:
            failed_runs = {(r.trial_id, r.run_id) for r in tx.execute(_FAILED_RUNS)}
        last: dict[int, int] = {}
        for run in self.ledger.runs.values():
            last[run.trial_id] = max(run.run_id, last.get(run.trial_id, 0))
        for trial_id, run_id in self.ledger.given_up.items():
            if (trial_id, run_id) in failed_runs and last[trial_id] > run_id:
                raise Violation(f"trial {trial_id} was tried again after run {run_id} gave up")

    def _collect(self) -> None:
        """Let two days pass, and housekeeping and its tasks do their work."""
        self.timeline.seconds += 2 * CUT_OFF_AFTER.total_seconds()
        for agent in self.agents:
            agent.poll_soon()
        housekeeping.run_if_due(self._hosts.processes[0].ctx)
        self.ticking.wake()
        deadline = self.timeline.seconds + self._longest_quiet_s
        while not self._is_over():
            if self.timeline.seconds > deadline:
                raise Violation(f"collecting does not end: {self.invariants.unfinished()}")
            for _ in range(10):
                self._next([])


def _skewed(world: World, skew: timedelta) -> Any:
    return world.timeline.now() + skew


def _experiment(rng: Random, slots: int) -> str:
    """Return work that one agent of its pool can hold, which announces uploads and may give up."""
    config = json.loads(experiment_config(rng, slots, 1))
    config["resources"]["resource_pool"] = rng.choice(POOLS)
    config["max_restarts"] = 2
    config["data"] |= {"announces": True, "hopeless": HOPELESS}
    config["log_policies"] = [{"name": "gone", "pattern": HOPELESS, "action": "cancel_retries"}]
    return json.dumps(config)
