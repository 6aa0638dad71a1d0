"""The operations that a search method asks for, and the reasons for which a trial leaves it."""

import enum
import json
import uuid
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Union

if TYPE_CHECKING:
    from determined.experimental.client import Checkpoint


class ExitedReason(enum.Enum):
    """The reasons for which a trial ends before the search closes it."""

    ERRORED = "EXITED_REASON_UNSPECIFIED"
    USER_CANCELED = "EXITED_REASON_USER_CANCELED"
    INVALID_HP = "EXITED_REASON_INVALID_HP"
    USER_REQUESTED_STOP = "EXITED_REASON_USER_REQUESTED_STOP"


class Operation:
    """Base of everything a search method may ask for."""

    def to_json(self) -> Dict[str, Any]:
        raise NotImplementedError

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Create(Operation):
    """A new trial with these hyperparameters; `request_id` is its name in every event and operation.

    It starts from `checkpoint`, a UUID or a `Checkpoint` of the SDK, where that is given.
    """

    def __init__(
        self,
        request_id: uuid.UUID,
        hparams: Mapping[str, Any],
        checkpoint: Union[str, uuid.UUID, "Checkpoint", None] = None,
    ) -> None:
        self.request_id = request_id
        self.hparams = dict(hparams)
        named = getattr(checkpoint, "uuid", checkpoint)
        self.checkpoint_uuid: Optional[str] = None if named is None else str(named)

    def to_json(self) -> Dict[str, Any]:
        asked = {"requestId": str(self.request_id), "hyperparams": json.dumps(self.hparams)}
        if self.checkpoint_uuid is not None:
            asked["checkpointUuid"] = self.checkpoint_uuid
        return {"createTrial": asked}


class ValidateAfter(Operation):
    """Train the trial until it has trained `length` in total, counted in `searcher.unit`, and validate it."""

    def __init__(self, request_id: uuid.UUID, length: int) -> None:
        self.request_id = request_id
        self.length = length

    def to_json(self) -> Dict[str, Any]:
        asked = {"requestId": str(self.request_id), "length": str(self.length)}
        return {"trialOperation": {"validateAfter": asked}}


class Close(Operation):
    """Close the trial: it ends when it has trained to the length that was asked for."""

    def __init__(self, request_id: uuid.UUID) -> None:
        self.request_id = request_id

    def to_json(self) -> Dict[str, Any]:
        return {"closeTrial": {"requestId": str(self.request_id)}}


class Shutdown(Operation):
    """End the experiment: as completed, as canceled or as failed."""

    def __init__(self, cancel: bool = False, failure: bool = False) -> None:
        self.cancel = cancel
        self.failure = failure

    def to_json(self) -> Dict[str, Any]:
        return {"shutDown": {"cancel": self.cancel, "failure": self.failure}}


class Progress(Operation):
    """The progress of the whole search, from 0 to 1."""

    def __init__(self, progress: float) -> None:
        self.progress = progress

    def to_json(self) -> Dict[str, Any]:
        return {"setSearcherProgress": {"progress": self.progress}}
