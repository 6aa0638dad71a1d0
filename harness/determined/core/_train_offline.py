"""Reports outside of a cluster. Calls are validated and logged but not sent."""

import logging
import pathlib
from typing import Any, Callable, Dict, List, Optional

from determined import _paths
from determined.core import _seen
from determined.core._distributed import DistributedContext, DummyDistributedContext
from determined.core._json import encode
from determined.core._step_times import StepReports, StepTimes
from determined.core._stragglers import Straggler
from determined.core._train import EarlyExitReason, TrainContext

logger = logging.getLogger("determined.core")


class DummyTrainContext(TrainContext):
    """The reports of `core.init()` outside of a cluster, which are only logged."""

    def __init__(
        self,
        tensorboard_path: Optional[pathlib.Path] = None,
        distributed: Optional[DistributedContext] = None,
    ) -> None:
        self._distributed = distributed or DummyDistributedContext()
        self._tensorboard_path = tensorboard_path or _paths.offline_dir() / "tensorboard"
        self._searcher_metric = None
        self._validated = set()
        self._scalars = None
        self._metadata: Optional[Dict[str, Any]] = None
        self._step_times = StepTimes(self._distributed, "", self._send_straggler)
        self._step_reports = StepReports(self._step_times)

    def set_status(self, status: str) -> None:
        logger.info("status: %s", status)

    def _put_metadata(self, metadata: Dict[str, Any]) -> None:
        logger.info("metadata: %s", encode(metadata).decode())
        self._metadata = metadata

    def _stored_metadata(self) -> Optional[Dict[str, Any]]:
        return self._metadata

    def get_tensorboard_path(self) -> pathlib.Path:
        self._tensorboard_path.mkdir(parents=True, exist_ok=True)
        return self._tensorboard_path

    def upload_tensorboard_files(
        self,
        selector: Callable[[pathlib.Path], bool] = lambda _: True,
        mangler: Callable[[pathlib.Path, int], pathlib.Path] = lambda path, _: path,
    ) -> None:
        logger.info("TensorBoard files stay in %s", self._tensorboard_path)

    def _send_early_exit(self, reason: EarlyExitReason) -> None:
        logger.info("early exit: %s", reason.name)

    def _send_progress(self, progress: float) -> None:
        logger.info("progress: %.1f %%", 100 * progress)

    def _send_straggler(self, straggler: Straggler, agent_id: str, steps_completed: int) -> None:
        pass  # the log names it already

    def get_experiment_best_validation(self) -> Optional[float]:
        return None

    def _is_stopped_by_searcher(self) -> bool:
        return False

    def _send(
        self,
        group: str,
        steps_completed: Optional[int],
        metrics: Dict[str, Any],
        batch_metrics: Optional[List[Dict[str, Any]]] = None,
    ) -> None:
        values = encode(metrics).decode()
        logger.info("%s metrics at step %s: %s", group, steps_completed, values)
        _seen.note(group)
