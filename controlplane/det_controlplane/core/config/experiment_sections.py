"""The smaller sections of an experiment configuration."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from det_controlplane.core.config.fields import (
    Identifier,
    Name,
    Natural,
    Positive,
    RetentionDays,
    Seed,
    StrictModel,
    refuse,
)
from det_controlplane.core.patterns import compiled
from det_controlplane.core.problems import Problem

_LONGEST_PATTERN = 4096


class Optimizations(StrictModel):
    """Deprecated settings, which are still passed to the training code."""

    aggregation_frequency: Positive = 1
    auto_tune_tensor_fusion: bool = False
    average_aggregated_gradients: bool = True
    average_training_metrics: bool = True
    gradient_compression: bool = False
    grad_updates_size_file: str | None = None
    mixed_precision: Literal["O0", "O1", "O2", "O3"] = "O0"
    tensor_fusion_cycle_time: Natural = 1
    tensor_fusion_threshold: Natural = 64


class Profiling(StrictModel):
    enabled: bool = False
    begin_on_batch: Natural = 0
    end_after_batch: Natural | None = None
    sync_timings: bool = True

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> "Profiling":
        if self.end_after_batch is not None and self.end_after_batch < self.begin_on_batch:
            message = f"must be at least begin_on_batch ({self.begin_on_batch}), not {self.end_after_batch}"
            refuse([Problem("end_after_batch", message)])
        return self


class Reproducibility(StrictModel):
    experiment_seed: Seed


class RetentionPolicy(StrictModel):
    log_retention_days: RetentionDays


class LogPolicy(StrictModel):
    """A pattern of log lines and the action on a match. A policy with a name and without a pattern is disabled."""

    name: Name | None = None
    pattern: str | None = Field(None, max_length=_LONGEST_PATTERN)
    action: Literal["cancel_retries", "exclude_node"] | None = None

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            compiled(pattern)
        return pattern

    @model_validator(mode="after")
    def _does_something(self) -> "LogPolicy":
        if self.name is None and self.pattern is None:
            refuse([Problem("", "needs a pattern, or the name of the policy to switch off")])
        return self


class WebhookChoice(StrictModel):
    webhook_id: tuple[Identifier, ...] | None = Field(None, strict=False)
    webhook_name: tuple[Name, ...] | None = Field(None, strict=False)
    exclude: bool = False


class Pachyderm(StrictModel):
    pachd: dict[str, Any]
    proxy: dict[str, Any]
    dataset: dict[str, Any]


class Integrations(StrictModel):
    pachyderm: Pachyderm | None = None
    webhooks: WebhookChoice | None = None


BUILT_IN_LOG_POLICIES = (
    {"name": "CUDA OOM", "pattern": ".*CUDA out of memory.*"},
    {"name": "ECC Error", "pattern": ".*uncorrectable ECC error encountered.*"},
)
