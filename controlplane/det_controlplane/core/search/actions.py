"""The actions that a search returns. Each action names its trial by request id."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Create:
    """Start a trial: from `checkpoint`, from the last checkpoint of the trial `warm_start_from`, or from scratch."""

    request_id: str
    seed: int
    hparams: Mapping[str, Any]
    warm_start_from: str | None = None
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class TrainTo:
    """Train up to this total length, in the unit of the search, and validate. This resumes a parked trial."""

    request_id: str
    length: int


@dataclass(frozen=True, slots=True)
class Park:
    """Save a checkpoint and release the slots. A later TrainTo continues the trial, a later Stop ends it."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Rest:
    """Leave the trial running without new work. It stays open even if its script exits cleanly."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the trial permanently. The search ignores its later reports.

    `early` means that the method ends the trial before its whole training, because other trials are better."""

    request_id: str
    early: bool = False


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the search. Every trial is closed and no other trial will start."""

    cancel: bool = False
    failure: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """End the experiment with an error, because the search cannot continue."""

    reason: str
    request_id: str | None = None  # the trial that caused the error


Action = Create | TrainTo | Park | Rest | Stop | Shutdown | Fail
