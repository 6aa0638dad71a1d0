"""The operations of a search method, and the reasons for which trials end early."""

import enum
import json
import uuid
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Union

if TYPE_CHECKING:
    from determined.experimental.client import Checkpoint


class ExitedReason(enum.Enum):
    """The reason why a trial ended before the search closed it."""

    ERRORED = "EXITED_REASON_UNSPECIFIED"
    USER_CANCELED = "EXITED_REASON_USER_CANCELED"
    INVALID_HP = "EXITED_REASON_INVALID_HP"
    USER_REQUESTED_STOP = "EXITED_REASON_USER_REQUESTED_STOP"


class Operation:
    """The base class of all operations."""

    def to_json(self) -> Dict[str, Any]:
        raise NotImplementedError

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Create(Operation):
    """Create a trial with these hyperparameters. `request_id` identifies it in all events and operations.

    The trial starts from `checkpoint`, a UUID or a `Checkpoint` of the SDK, if that is given.
    """

    def __init__(
        self,
        request_id: uuid.UUID,
        hparams: Mapping[str, Any],
        checkpoint: Union[str, uuid.UUID, "Checkpoint", None] = None,
    ) -> None:
        self.request_id = request_id
        self.hparams = dict(hparams)
        checkpoint_uuid = getattr(checkpoint, "uuid", checkpoint)
        self.checkpoint_uuid: Optional[str] = (
            None if checkpoint_uuid is None else str(checkpoint_uuid)
        )

    def to_json(self) -> Dict[str, Any]:
        request = {"requestId": str(self.request_id), "hyperparams": json.dumps(self.hparams)}
        if self.checkpoint_uuid is not None:
            request["checkpointUuid"] = self.checkpoint_uuid
        return {"createTrial": request}


class ValidateAfter(Operation):
    """Train the trial to a total of `length`, counted in `searcher.unit`, and validate it."""

    def __init__(self, request_id: uuid.UUID, length: int) -> None:
        self.request_id = request_id
        self.length = length

    def to_json(self) -> Dict[str, Any]:
        request = {"requestId": str(self.request_id), "length": str(self.length)}
        return {"trialOperation": {"validateAfter": request}}


class Close(Operation):
    """Close the trial. It ends when it has trained to its requested length."""

    def __init__(self, request_id: uuid.UUID) -> None:
        self.request_id = request_id

    def to_json(self) -> Dict[str, Any]:
        return {"closeTrial": {"requestId": str(self.request_id)}}


class Shutdown(Operation):
    """End the experiment as completed, canceled or failed."""

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
