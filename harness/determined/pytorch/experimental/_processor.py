import contextlib
import pathlib
import tempfile
from typing import Any, Dict, Iterator, Optional, Set, Type

import torch

from determined.pytorch import _data
from determined.pytorch._reducer import ReducerContext
from determined.pytorch._trial_context import choose_device


def get_default_device(core_context: Any) -> torch.device:
    """Return the accelerator of this rank's slot, or the CPU."""
    return choose_device(core_context.distributed.local_rank)


class TorchBatchProcessorContext(ReducerContext):
    """The context of a TorchBatchProcessor, with reports, storage, and metric reducers."""

    def __init__(self, core_context: Any, storage_path: str) -> None:
        super().__init__()
        self._core = core_context
        self._storage_path = storage_path
        self.device = get_default_device(core_context)

    def to_device(self, data: Any, warned_types: Optional[Set[Type[Any]]] = None) -> Any:
        return _data.to_device(data, self.device, warned_types)

    def get_hparams(self) -> Dict[str, Any]:
        """Return the hyperparameters of the experiment, or {} outside of a cluster."""
        info = self._core.info
        return info.trial.hparams if info is not None and info.task_type == "TRIAL" else {}

    def prepare_model_for_inference(self, model: torch.nn.Module) -> torch.nn.Module:
        """Move a model to this slot's device and switch it to evaluation mode."""
        model.eval()
        return model.to(self.device)

    def get_distributed_rank(self) -> int:
        return int(self._core.distributed.rank)

    def get_distributed_size(self) -> int:
        return int(self._core.distributed.size)

    def get_tensorboard_path(self) -> pathlib.Path:
        return pathlib.Path(self._core.train.get_tensorboard_path())

    @contextlib.contextmanager
    def upload_path(self) -> Iterator[pathlib.Path]:
        """Yield a directory. When the block ends, its files are uploaded to the storage of the run."""
        with tempfile.TemporaryDirectory() as scratch:
            yield pathlib.Path(scratch)
            self._core.checkpoint._storage.upload(scratch, self._storage_path)

    def report_metrics(self, group: str, steps_completed: int, metrics: Dict[str, Any]) -> None:
        """Report metrics of any group. Only the chief's metrics are reported."""
        if self.get_distributed_rank() == 0:
            self._core.train.report_metrics(group, steps_completed, metrics)

    def report_task_using_checkpoint(self, checkpoint: Any) -> None:
        """Link this run to the checkpoint that it uses. The run's metrics are shown with the checkpoint."""
        self._link({"checkpointUuid": checkpoint.uuid})

    def report_task_using_model_version(self, model_version: Any) -> None:
        """Link this run to the model version that it uses. The run's metrics are shown with the model version."""
        version = {
            "checkpointUuid": model_version.checkpoint.uuid,
            "modelId": model_version.model_id,
            "modelVersion": model_version.model_version,
        }
        self._link(version)

    def _link(self, used: Dict[str, Any]) -> None:
        info = self._core.info
        if info is None or info.task_type != "TRIAL" or self.get_distributed_rank() != 0:
            return
        from determined._task_session import task_session

        source = {
            "trialId": info.trial.trial_id,
            "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE",
            **used,
        }
        task_session().post("/api/v1/trial-source-info", {"trialSourceInfo": source})


class TorchBatchProcessor:
    """Processes batches one after another. The constructor loads the model."""

    def __init__(self, context: TorchBatchProcessorContext) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define __init__(context)")

    def process_batch(self, batch: Any, batch_idx: int) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define process_batch()")

    def on_checkpoint_start(self) -> None:
        """Write buffered results before progress is saved."""

    def on_finish(self) -> None:
        """Run after the last batch."""
