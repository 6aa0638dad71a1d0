"""The context of a DeepSpeedTrial, and the role of a rank in data and model parallelism."""

from dataclasses import dataclass
from typing import Any, List, Optional

import torch

from determined._trial_settings import TrialSettings
from determined.pytorch._trial_context import BaseExperimentalContext, BaseTrialContext


@dataclass(frozen=True)
class ModelParallelUnit:
    """A rank's role. Its data-parallel group shards the data. Only some ranks load data or report metrics."""

    data_parallel_rank: int
    data_parallel_world_size: int
    should_report_metrics: bool
    should_build_data_loader: bool


def make_data_parallel_mpu(dist_context: Any) -> ModelParallelUnit:
    """Make the unit for a rank that has the whole model."""
    return ModelParallelUnit(
        data_parallel_rank=dist_context.get_rank(),
        data_parallel_world_size=dist_context.get_size(),
        should_report_metrics=True,
        should_build_data_loader=True,
    )


def make_deepspeed_mpu(topology: Any) -> ModelParallelUnit:
    """Make the unit from DeepSpeed's grid (`engine.mpu` of a pipeline). The last stage computes the loss."""
    has_slices = hasattr(topology, "get_slice_parallel_rank")
    model_rank = topology.get_slice_parallel_rank() if has_slices else 0
    stage, stages = topology.get_pipe_parallel_rank(), topology.get_pipe_parallel_world_size()
    return ModelParallelUnit(
        data_parallel_rank=topology.get_data_parallel_rank(),
        data_parallel_world_size=topology.get_data_parallel_world_size(),
        should_report_metrics=stage == stages - 1 and model_rank == 0,
        should_build_data_loader=stage in (0, stages - 1),
    )


class DeepSpeedTrialContext(BaseTrialContext):
    """The context that a DeepSpeedTrial's constructor receives, and in which it wraps its DeepSpeed engines."""

    def __init__(self, core_context: Any, settings: TrialSettings, device: torch.device) -> None:
        super().__init__(core_context, settings, device)
        self.models: List[Any] = []
        self.experimental = BaseExperimentalContext(self)
        self.use_pipeline_parallel = False
        self._mpu: ModelParallelUnit = make_data_parallel_mpu(self.distributed)
        self._auto_grad_accumulation = True
        self._micro_batch_size: Optional[int] = None
        self._micro_batches: Optional[int] = None

    def wrap_model_engine(self, model: Any) -> Any:
        """Register an engine. The configuration of the first engine determines how batches are split."""
        if self._micro_batches is None:
            self._micro_batch_size = int(model.train_micro_batch_size_per_gpu())
            self._micro_batches = int(model.gradient_accumulation_steps())
        if _is_pipeline(model):
            self.use_pipeline_parallel = True
        self.models.append(model)
        return model

    def set_mpu(self, mpu: ModelParallelUnit) -> None:
        """Set how ranks are grouped. Without it, every rank has the whole model."""
        if not isinstance(mpu, ModelParallelUnit):
            raise TypeError(f"set_mpu() takes a ModelParallelUnit, not {type(mpu).__name__}")
        self._mpu = mpu

    def disable_auto_grad_accumulation(self) -> None:
        """Call `train_batch` once for each batch. It then reads all micro batches itself."""
        self._auto_grad_accumulation = False

    def disable_dataset_reproducibility_checks(self) -> None:
        """Allow torch's own data loaders. Your code must then shard and resume them."""
        self._reproducibility_checks = False

    def get_train_micro_batch_size_per_gpu(self) -> int:
        return int(self._wrapped("_micro_batch_size"))

    def get_num_micro_batches_per_slot(self) -> int:
        """Return the micro batches in a training batch of this slot (DeepSpeed's gradient_accumulation_steps)."""
        return int(self._wrapped("_micro_batches"))

    @property
    def train_micro_batch_size_per_gpu(self) -> int:
        return self.get_train_micro_batch_size_per_gpu()

    @property
    def num_micro_batches_per_slot(self) -> int:
        return self.get_num_micro_batches_per_slot()

    def calls_per_batch(self) -> int:
        """Return how many times the Trainer calls `train_batch` for one batch."""
        accumulates_itself = self.use_pipeline_parallel or not self._auto_grad_accumulation
        return 1 if accumulates_itself else self.get_num_micro_batches_per_slot()

    def _wrapped(self, name: str) -> Any:
        value = getattr(self, name)
        if value is None:
            raise RuntimeError(
                "wrap_model_engine() must be called first, in the trial's constructor"
            )
        return value


def _is_pipeline(model: Any) -> bool:
    from deepspeed.runtime.pipe.engine import PipelineEngine

    return isinstance(model, PipelineEngine)
