"""The `searcher` section: a model for each search method (docs/reference/experiment-config.md#searcher)."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from det_controlplane.core.config.fields import (
    CheckedModel,
    Fraction,
    Identifier,
    MaxLength,
    Name,
    Natural,
    Positive,
    StrictModel,
    discriminated_by,
    kind_tag,
)
from det_controlplane.core.problems import Problem

# The limits of rungs and divisor keep divisor^rungs within the range of a float.
Rungs = Annotated[Positive, Field(le=50)]
Divisor = Annotated[float, Field(gt=1, le=1000)]
MAX_TRIALS = 1_000_000
Trials = Annotated[Positive, Field(le=MAX_TRIALS)]
Mode = Literal["aggressive", "standard", "conservative"]


def _is_uuid(value: Any) -> bool:
    try:
        UUID(str(value))
    except ValueError:
        return False
    return True


class _Searcher(CheckedModel):
    metric: Name
    smaller_is_better: bool = True
    source_trial_id: Identifier | None = None
    source_checkpoint_uuid: Name | None = None

    @property
    def type(self) -> str:
        name: str = getattr(self, "name")  # noqa: B009
        return name

    def problems(self) -> Iterator[Problem]:
        if self.source_trial_id is not None and self.source_checkpoint_uuid is not None:
            message = (
                "cannot be given together with source_trial_id; a trial starts from one checkpoint"
            )
            yield Problem("source_checkpoint_uuid", message)
        elif self.source_checkpoint_uuid is not None and not _is_uuid(self.source_checkpoint_uuid):
            message = f"must be the UUID of a checkpoint, not {self.source_checkpoint_uuid!r}"
            yield Problem("source_checkpoint_uuid", message)


class StopWhen(CheckedModel):
    """Conditions that end a search before its last trial. One of them is enough."""

    expected_gain_below: Annotated[float, Field(gt=0)] | None = None
    or_cost_above: Annotated[float, Field(gt=0)] | None = None

    def problems(self) -> Iterator[Problem]:
        if self.expected_gain_below is None and self.or_cost_above is None:
            yield Problem("", "needs expected_gain_below, or_cost_above (US dollars) or both")


class _Ending(_Searcher):
    """A search with many trials, which may end before its last one."""

    stop_when: StopWhen | None = None
    has_model: ClassVar[bool] = False

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        stop_when: Any = self.stop_when
        gain = (
            stop_when.get("expected_gain_below")
            if isinstance(stop_when, dict)
            else getattr(stop_when, "expected_gain_below", None)
        )
        if gain is not None and not self.has_model:
            yield Problem(
                "stop_when.expected_gain_below",
                f"needs a model of the metric, which {self.type} does not have: use model_asha, or or_cost_above alone",
            )


class Single(_Searcher):
    name: Literal["single"]
    max_length: MaxLength | None = None


class Random(_Ending):
    name: Literal["random"]
    max_trials: Trials
    max_concurrent_trials: Natural = 16
    max_length: MaxLength | None = None


class Grid(_Ending):
    name: Literal["grid"]
    max_concurrent_trials: Natural = 16
    max_length: MaxLength | None = None


class _Halving(_Ending):
    """A search that stops trials by time_metric, or promotes them by length as versions before 0.38 did."""

    max_trials: Trials
    max_concurrent_trials: Natural = 16
    divisor: Divisor = 4
    time_metric: Name | None = None
    max_time: Positive | None = None
    max_length: MaxLength | None = None
    stop_once: bool | None = None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if (self.time_metric is None) != (self.max_time is None):
            absent = "time_metric" if self.time_metric is None else "max_time"
            yield Problem(absent, "is required: time_metric and max_time go together")
        elif self.time_metric is None and self.max_length is None:
            yield Problem(
                "time_metric",
                "is required with max_time: the reported metric that measures training, and how much of it "
                "a full trial gets; or give max_length to promote trials by training length",
            )


class AsyncHalving(_Halving):
    name: Literal["async_halving"]
    num_rungs: Rungs


class AdaptiveASHA(_Halving):
    name: Literal["adaptive_asha"]
    mode: Mode = "standard"
    max_rungs: Rungs = 5
    bracket_rungs: tuple[Rungs, ...] = Field((), strict=False)


class LocalASHA(_Halving):
    """ASHA with new trials that are mostly neighbours of the best trials of the highest rung."""

    name: Literal["local_asha"]
    num_rungs: Rungs | None = None
    max_rungs: Rungs = 5
    local_fraction: Fraction = 0.7


class ModelASHA(_Halving):
    """ASHA with a Gaussian process that proposes trials and decides which of them continue."""

    has_model: ClassVar[bool] = True
    name: Literal["model_asha"]
    num_rungs: Rungs | None = None
    max_rungs: Rungs = 2


class ReplaceFunction(StrictModel):
    truncate_fraction: Annotated[float, Field(ge=0, le=0.5)] = 0.2


class ExploreFunction(StrictModel):
    resample_probability: Fraction = 0.2
    perturb_factor: Fraction = 0.2


class PBT(_Searcher):
    """Population-based training. In each round, modified copies of the best trials replace the worst."""

    name: Literal["pbt"]
    population_size: Annotated[Positive, Field(ge=2, le=10_000)]
    num_rounds: Annotated[Positive, Field(le=10_000)]
    length_per_round: MaxLength | None = None
    time_metric: Name | None = None
    time_per_round: Positive | None = None
    replace_function: ReplaceFunction = ReplaceFunction.model_construct()
    explore_function: ExploreFunction = ExploreFunction.model_construct()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if (self.time_metric is None) != (self.time_per_round is None):
            absent = "time_metric" if self.time_metric is None else "time_per_round"
            yield Problem(absent, "is required: time_metric and time_per_round go together")
        elif (self.length_per_round is None) == (self.time_metric is None):
            message = "give either this or time_metric with time_per_round: how long a round trains"
            yield Problem("length_per_round", message)


class Custom(_Searcher):
    """A search method that runs outside of the cluster and reads events."""

    name: Literal["custom"]
    unit: Literal["batches", "records", "epochs"] | None = None


Searcher = Annotated[
    Annotated[Single, kind_tag("single")]
    | Annotated[Random, kind_tag("random")]
    | Annotated[Grid, kind_tag("grid")]
    | Annotated[AsyncHalving, kind_tag("async_halving")]
    | Annotated[AdaptiveASHA, kind_tag("adaptive_asha")]
    | Annotated[LocalASHA, kind_tag("local_asha")]
    | Annotated[ModelASHA, kind_tag("model_asha")]
    | Annotated[PBT, kind_tag("pbt")]
    | Annotated[Custom, kind_tag("custom")],
    discriminated_by("name"),
]

NAMES = (
    "single",
    "random",
    "grid",
    "adaptive_asha",
    "async_halving",
    "local_asha",
    "model_asha",
    "pbt",
    "custom",
)
REMOVED = {
    "adaptive": "was removed; use adaptive_asha with max_trials instead of budget (mode, max_rungs, divisor stay)",
    "adaptive_simple": "was removed; use adaptive_asha (max_trials, mode, max_rungs, divisor stay)",
    "sync_halving": "was removed; use async_halving with max_trials instead of budget (num_rungs, divisor stay)",
}
