"""The role of a rank in data and model parallelism."""

from dataclasses import dataclass
from typing import Any


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
