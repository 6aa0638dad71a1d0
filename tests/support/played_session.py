"""A session over the API in this process. Its trials are played between a runner's requests."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from determined.common.http import MasterUnreachableError, Session, error_from

from tests.support.api import Caller


class Died(BaseException):
    """The process of the runner was killed."""


@dataclass
class Plan:
    """Fault rates, in percent of requests."""

    rng: random.Random
    lost_requests: int = 0
    lost_answers: int = 0
    deaths: int = 0


@dataclass
class PlayedSession(Session):
    caller: Caller
    plan: Plan
    loss: Callable[[dict[str, Any], int], float]
    posted: list[Any] = field(default_factory=list)

    def request(self, method: str, path: str, **kw: Any) -> Any:
        if path.endswith("/searcher_events"):
            self._play(path.rpartition("/")[0])
        self._may_fail(self.plan.lost_requests)
        params = {k: [str(v)] for k, v in (kw.get("params") or {}).items()}
        response = self.caller.ask(method, path, kw.get("body"), params, kw.get("headers"))
        if response.status >= 300:
            raise error_from(response.status, response.body)
        if path.endswith("/searcher_operations"):
            self.posted.append(kw["body"])
        self._may_fail(self.plan.lost_answers)
        if self.plan.rng.randrange(100) < self.plan.deaths:
            raise Died
        return response.json()

    def _may_fail(self, percent: int) -> None:
        if self.plan.rng.randrange(100) < percent:
            raise MasterUnreachableError("the test cut the wire")

    def _play(self, experiment: str) -> None:
        """Play: of the trials that are asked to train, one trains."""
        for trial in self.caller.get(f"{experiment}/trials")["trials"]:
            path = f"/api/v1/trials/{trial['id']}/searcher"
            response = self.caller.ask("GET", f"{path}/operation")
            if (
                trial["endTime"] is not None
                or response.status != 200
                or response.json()["completed"]
            ):
                continue
            length = int(response.json()["op"]["validateAfter"]["length"])
            loss = self.loss(trial["hparams"], length)
            body = {"op": {"length": str(length)}, "searcherMetric": loss}
            self.caller.post(f"{path}/completed_operation", {"completedOperation": body})
            return
