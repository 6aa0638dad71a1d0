"""The Core API, which turns any training script into a trial."""

from determined.core._checkpoint import (
    CheckpointContext,
    DownloadMode,
    DummyCheckpointContext,
)
from determined.core._context import Context, TensorboardMode, init
from determined.core._distributed import DistributedContext, DummyDistributedContext
from determined.core._outbox import ReportRefused
from determined.core._pending import PendingCheckpoint
from determined.core._preempt import DummyPreemptContext, PreemptContext, PreemptMode
from determined.core._profiler import DummyProfilerContext, ProfilerContext
from determined.core._searcher import (
    DummySearcherContext,
    DummySearcherOperation,
    SearcherContext,
    SearcherMode,
    SearcherOperation,
    Unit,
)
from determined.core._train import EarlyExitReason, TrainContext
from determined.core._train_offline import DummyTrainContext
from determined.errors import SearcherContextMissing

__all__ = [
    "CheckpointContext",
    "Context",
    "DistributedContext",
    "DownloadMode",
    "DummyCheckpointContext",
    "DummyDistributedContext",
    "DummyPreemptContext",
    "DummyProfilerContext",
    "DummySearcherContext",
    "DummySearcherOperation",
    "DummyTrainContext",
    "EarlyExitReason",
    "PendingCheckpoint",
    "PreemptContext",
    "PreemptMode",
    "ProfilerContext",
    "ReportRefused",
    "SearcherContext",
    "SearcherContextMissing",
    "SearcherMode",
    "SearcherOperation",
    "TensorboardMode",
    "TrainContext",
    "Unit",
    "init",
]
