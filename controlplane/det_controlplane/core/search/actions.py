"""The actions that a search asks for. Each names its trial by request id."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Create:
    """Start a trial; from `checkpoint`, or the one that `warm_start_from` left when it last parked, where set."""

    request_id: str
    seed: int
    hparams: Mapping[str, Any]
    warm_start_from: str | None = None
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class TrainTo:
    """Train up to this total length (in the search's unit) and validate; resumes a parked trial."""

    request_id: str
    length: int


@dataclass(frozen=True, slots=True)
class Park:
    """Checkpoint and give the slots back: a later TrainTo continues, a later Stop ends it."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Rest:
    """Let the trial be for now, without an interruption: a clean end of its script does not close it."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Preempt the trial for good; what it reports afterwards is not read."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Every trial is closed and no other will come."""

    cancel: bool = False
    failure: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """The search cannot go on; the experiment ends in error with this reason."""

    reason: str
    request_id: str | None = None  # of the trial that the reason is about


Action = Create | TrainTo | Park | Rest | Stop | Shutdown | Fail
