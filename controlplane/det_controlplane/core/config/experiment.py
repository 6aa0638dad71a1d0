"""The resolved experiment configuration: all fields with types and defaults (docs/reference/experiment-config.md)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, ValidationError

from det_controlplane.core import hparams
from det_controlplane.core.config import messages
from det_controlplane.core.config.data_sets import Data
from det_controlplane.core.config.environment import BindMount, Environment, Resources
from det_controlplane.core.config.experiment_sections import (
    Integrations,
    LogPolicy,
    Optimizations,
    Profiling,
    Reproducibility,
    RetentionPolicy,
)
from det_controlplane.core.config.fields import Name, Natural, Period, Positive, StrictModel, refuse
from det_controlplane.core.config.lengths import Length
from det_controlplane.core.config.searchers import Searcher
from det_controlplane.core.config.storage import Storage
from det_controlplane.core.hparams import Space
from det_controlplane.core.problems import InvalidConfig


def _space(raw: Any) -> Space:
    space, problems = hparams.parse(raw, path="")
    refuse(problems)
    return space


def _entrypoint(raw: Any) -> Any:
    words = raw if isinstance(raw, list | tuple) else [raw]
    if not words or not all(isinstance(word, str) for word in words) or not "".join(words).strip():
        raise ValueError("must be a shell command or a list of arguments, all text and not empty")
    return tuple(words) if raw is words else raw


Hyperparameters = Annotated[Any, PlainValidator(_space), PlainSerializer(hparams.to_json)]
Entrypoint = Annotated[str | tuple[str, ...], BeforeValidator(_entrypoint)]


class ExperimentConfig(StrictModel):
    bind_mounts: tuple[BindMount, ...] = Field((), strict=False)
    checkpoint_policy: Literal["best", "all", "none"] = "best"
    checkpoint_storage: Storage
    data: Data = Field(default_factory=dict)
    debug: bool = False
    description: str | None = None
    entrypoint: Entrypoint | None = None
    environment: Environment = Environment.model_construct()
    hyperparameters: Hyperparameters = Field(default_factory=dict)
    integrations: Integrations | None = None
    labels: tuple[Name, ...] = Field((), strict=False)
    log_policies: tuple[LogPolicy, ...] = Field((), strict=False, max_length=50)
    max_restarts: Natural = 5
    min_checkpoint_period: Period = Length(0, "batches")
    min_validation_period: Period = Length(0, "batches")
    name: Name
    optimizations: Optimizations = Optimizations.model_construct()
    pbs: dict[str, Any] = Field(default_factory=dict)
    perform_initial_validation: bool = False
    preemption_timeout: Natural | None = None
    profiling: Profiling = Profiling.model_construct()
    project: str = ""
    records_per_epoch: Natural = 0
    reproducibility: Reproducibility
    resources: Resources = Resources.model_construct()
    retention_policy: RetentionPolicy | None = None
    scheduling_unit: Positive = 100
    searcher: Searcher
    slurm: dict[str, Any] = Field(default_factory=dict)
    workspace: str = ""

    @classmethod
    def load(cls, resolved: Mapping[str, Any]) -> "ExperimentConfig":
        """Read a configuration that `to_json` wrote."""
        try:
            return cls.model_validate(resolved)
        except ValidationError as error:
            raise InvalidConfig(messages.problems_of(error, cls)) from error

    def to_json(self) -> dict[str, Any]:
        """Return the complete configuration with all defaults, as `experiment.config` shows it."""
        return self.model_dump(mode="json")

    def hparam_space(self) -> Space:
        space: Space = self.hyperparameters
        return space
