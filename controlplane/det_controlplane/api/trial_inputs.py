"""The models of bodies and queries about trials."""

from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any, cast, get_args

from det_controlplane.api.errors import BadRequest
from det_controlplane.api.listing import ORDERS, MetricGroupQuery, PageQuery, choice
from det_controlplane.core.paging import Sort
from det_controlplane.core.search import ExitReason
from det_controlplane.core.trials.metrics import MetricsReport, storable
from det_controlplane.core.trials.stragglers import Cause, Straggler
from det_controlplane.services.trials import workloads


@dataclass(frozen=True)
class MetricValues:
    avg_metrics: dict[str, Any] = field(default_factory=dict)
    batch_metrics: Any = None


@dataclass(frozen=True)
class TrialMetrics:
    trial_run_id: int = 0
    steps_completed: int | None = None
    report_time: datetime | None = None
    metrics: MetricValues = MetricValues()

    def report(self, trial_id: int, group: str, request_key: str | None) -> MetricsReport:
        batch = self.metrics.batch_metrics
        return MetricsReport(
            trial_id=trial_id,
            run_id=self.trial_run_id,
            group=group,
            total_batches=self.steps_completed,
            metrics=storable(self.metrics.avg_metrics),
            batch_metrics=storable(batch) if batch else None,
            reported_at=self.report_time,
            request_key=request_key,
        )


@dataclass(frozen=True)
class GroupMetrics:
    group: str = ""
    metrics: TrialMetrics = TrialMetrics()


@dataclass(frozen=True)
class ProgressBody:
    progress: float = 0.0


@dataclass(frozen=True)
class StragglerBody:
    rank: int
    own_seconds: float
    median_seconds: float
    slowdown: float
    agent_id: str = ""
    cause: str = "compute"
    steps_completed: int = 0
    recovered: bool = False

    def straggler(self) -> Straggler:
        if self.cause not in get_args(Cause):
            raise BadRequest(f"cause must be one of {get_args(Cause)}, not {self.cause!r}")
        numbers = (self.own_seconds, self.median_seconds, self.slowdown)
        if self.rank < 0 or not all(isfinite(n) and n >= 0 for n in numbers):
            raise BadRequest("rank, ownSeconds, medianSeconds and slowdown must not be negative")
        return Straggler(
            rank=self.rank,
            agent_id=self.agent_id,
            slowdown=self.slowdown,
            own_s=self.own_seconds,
            median_s=self.median_seconds,
            cause=cast(Cause, self.cause),
            steps_completed=self.steps_completed,
            recovered=self.recovered,
        )


@dataclass(frozen=True)
class EarlyExit:
    reason: str

    def exit_reason(self) -> ExitReason:
        name = self.reason.removeprefix("EXITED_REASON_")
        if name not in ExitReason.__members__:
            raise BadRequest(
                f"reason must be EXITED_REASON_INVALID_HP or ..._INIT_INVALID_HP, not {name!r}"
            )
        return ExitReason[name]


@dataclass(frozen=True)
class RunnerState:
    state: str = ""


@dataclass(frozen=True)
class TrialState:
    state: str | None = None


@dataclass(frozen=True)
class NewTrial:
    experiment_id: int = 0
    hparams: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NewExternalTrial:
    external_trial_id: str
    create_trial_request: NewTrial = NewTrial()


@dataclass(frozen=True)
class TrialStart:
    resume: bool = False


@dataclass(frozen=True)
class RunStart:
    checkpoint_storage: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunMetadata:
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointSource:
    checkpoint_uuid: str
    trial_id: int = 0
    model_id: int | None = None
    model_version: int | None = None
    trial_source_info_type: str = ""


@dataclass(frozen=True)
class SourceReport:
    trial_source_info: CheckpointSource


@dataclass(frozen=True)
class OperationLength:
    length: float = 0.0


@dataclass(frozen=True)
class CompletedOperation:
    op: OperationLength = OperationLength()
    searcher_metric: Any = None


@dataclass(frozen=True)
class Completion:
    completed_operation: CompletedOperation = CompletedOperation()


@dataclass(frozen=True)
class StepQuery:
    steps_completed: int = 0


@dataclass(frozen=True)
class WorkloadQuery(PageQuery, MetricGroupQuery):
    filter: str = ""
    include_batch_metrics: bool = False
    remove_deleted_checkpoints: bool = False
    sort_key: str = ""
    order_by: str = ""

    def options(self) -> workloads.Options:
        return workloads.Options(
            filter=choice("filter", self.filter, "FILTER_OPTION_", workloads.FILTERS),
            batch_metrics=self.include_batch_metrics,
            skip_deleted=self.remove_deleted_checkpoints,
            group=self.metric_group() or "validation",
        )

    def sort(self) -> Sort:
        """Return the order by steps, or by a metric that the caller names."""
        descending = choice("orderBy", self.order_by, "ORDER_BY_", ORDERS) == "DESC"
        if self.sort_key in ("", "batches"):
            return Sort(descending=descending)
        return Sort(Sort.BY_METRIC, descending, self.sort_key)
