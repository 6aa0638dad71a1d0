"""Training lengths and periods from the experiment configuration, for trials that run without a training script."""

import contextlib
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from determined._units import Batch, Epoch, TrainUnit, unit_from_config
from determined.errors import InvalidConfigurationException
from determined.workloads import LocalSource, Plan, RemoteSource, WorkloadSource

_UNITS_OF_TIME = {"batches": Batch, "epochs": Epoch}


@dataclass(frozen=True)
class Lengths:
    """The arguments of `Trainer.fit` that the experiment configuration implies."""

    max_length: TrainUnit
    validation_period: Optional[TrainUnit]
    checkpoint_period: Optional[TrainUnit]
    reporting_period: TrainUnit
    checkpoint_policy: str
    step_zero_validation: bool
    profiling_enabled: bool
    replication_period: Optional[TrainUnit] = None

    def fit_arguments(self) -> Dict[str, Any]:
        return dict(vars(self))

    def plan(self, epoch_len: Optional[int]) -> Plan:
        return make_plan(
            epoch_len,
            self.max_length,
            self.reporting_period,
            self.validation_period,
            self.checkpoint_period,
            self.checkpoint_policy,
            self.step_zero_validation,
            test_mode=False,
        )


def lengths(config: Mapping[str, Any], hparams: Mapping[str, Any], core_context: Any) -> Lengths:
    batch_size = int(hparams.get("global_batch_size") or 0)

    def unit(length: Any) -> Optional[TrainUnit]:
        return unit_from_config(length, global_batch_size=batch_size)

    return Lengths(
        max_length=max_length(config, unit, core_context),
        validation_period=unit(config.get("min_validation_period")),
        checkpoint_period=unit(config.get("min_checkpoint_period")),
        reporting_period=Batch(int(config.get("scheduling_unit") or 100)),
        checkpoint_policy=config.get("checkpoint_policy") or "best",
        step_zero_validation=bool(config.get("perform_initial_validation")),
        profiling_enabled=bool((config.get("profiling") or {}).get("enabled")),
        replication_period=unit((config.get("resources") or {}).get("replication_period")),
    )


def cluster_source(context: Any, plan: Plan) -> WorkloadSource:
    """Return the source of workloads on a cluster. Only the chief requests workloads and needs a session."""
    local = LocalSource(plan)
    if context.distributed.rank != 0:
        return local
    from determined._task_session import task_session

    return RemoteSource(task_session(), context.get_trial_id(), local)


def max_length(config: Mapping[str, Any], unit: Any, core_context: Any) -> TrainUnit:
    """Return `searcher.max_length`, or `searcher.max_time`, or the length of the searcher's first operation."""
    searcher: Mapping[str, Any] = config.get("searcher") or {}
    length: Optional[TrainUnit] = unit(searcher.get("max_length"))
    kind = _UNITS_OF_TIME.get(str(searcher.get("time_metric")))
    if length is None and kind is not None and searcher.get("max_time"):
        length = kind(int(searcher["max_time"]))
    if length is None:
        length = unit({str(searcher.get("unit") or "batches"): _length_of_operation(core_context)})
    if length is None:
        raise InvalidConfigurationException(
            "the experiment does not say how long to train: set searcher.max_length, for example "
            "{epochs: 10}, or call Trainer.fit(max_length=...) in a script of your own"
        )
    return length


def _length_of_operation(core_context: Any) -> Optional[int]:
    from determined.errors import SearcherContextMissing

    with contextlib.suppress(SearcherContextMissing):
        operation = next(iter(core_context.searcher.operations()), None)
        return None if operation is None else int(operation.length)
    return None


def make_plan(
    epoch_len: Optional[int],
    max_length: TrainUnit,
    reporting_period: TrainUnit,
    validation_period: Optional[TrainUnit],
    checkpoint_period: Optional[TrainUnit],
    checkpoint_policy: str,
    initial_validation: bool,
    test_mode: bool,
) -> Plan:
    """Convert lengths to a plan in batches. The number of batches per epoch must be known."""
    if test_mode:
        return Plan(max_batches=1)
    for unit in (max_length, reporting_period, validation_period, checkpoint_period):
        if unit is not None and not isinstance(unit, TrainUnit):
            raise TypeError(f"lengths and periods are Batch(...) or Epoch(...), not {unit!r}")
    return Plan(
        max_batches=max_length.batches(epoch_len),
        reporting=reporting_period.period(epoch_len),
        validation=validation_period.period(epoch_len) if validation_period else None,
        checkpoint=checkpoint_period.period(epoch_len) if checkpoint_period else None,
        checkpoint_policy=checkpoint_policy,
        initial_validation=initial_validation,
    )
