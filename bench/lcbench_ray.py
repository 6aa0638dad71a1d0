"""Ray Tune's asynchronous ASHA on LCBench: the decisions of its scheduler, without its runtime."""

from types import SimpleNamespace
from typing import Any

from det_controlplane.core.search.rng import Rng
from det_controlplane.core.search.sampling import Sampler

from bench.lcbench_curves import FULL, SPACE
from bench.lcbench_peers import Job, Package, Verdict


class RayAsha:
    """Random trials, which an AsyncHyperBandScheduler stops."""

    def __init__(self, seed: int) -> None:
        from ray.tune.schedulers import AsyncHyperBandScheduler

        self._scheduler = AsyncHyperBandScheduler(
            "epoch", "error", "min", max_t=FULL, grace_period=1, reduction_factor=3
        )
        self._sampler = Sampler(SPACE, Rng(seed))
        self._trials: dict[int, Any] = {}

    def next_job(self) -> Job:
        number = len(self._trials)
        self._trials[number] = SimpleNamespace(trial_id=str(number))
        self._scheduler.on_trial_add(None, self._trials[number])
        return Job(number, self._sampler.hparams())

    def report(self, trial: int, epoch: int, loss: float) -> Verdict:
        result = {"epoch": epoch, "error": loss}
        decision = self._scheduler.on_trial_result(None, self._trials[trial], result)
        return Verdict.CONTINUE if decision == "CONTINUE" else Verdict.STOP


PACKAGES = {"Ray Tune ASHA": Package("optuna", RayAsha, ("ray",))}
