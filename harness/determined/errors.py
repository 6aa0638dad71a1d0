"""Errors that user code raises or catches."""

from determined.common.failures import (
    CheckpointStateException,
    MultipleDownloadsFailed,
    NoDirectStorageAccess,
    ProxiedDownloadFailed,
)

__all__ = [
    "CheckpointConflict",
    "CheckpointCorrupt",
    "CheckpointStateException",
    "InvalidConfigurationException",
    "InvalidHP",
    "MultipleDownloadsFailed",
    "NoDirectStorageAccess",
    "ProxiedDownloadFailed",
    "SearcherContextMissing",
]


class InvalidHP(Exception):
    """A trial raises this if its hyperparameters cannot work. The trial ends early and is not restarted."""

    def __init__(self, msg: str = "the trial's hyperparameters are invalid") -> None:
        super().__init__(msg)
        self.msg = msg


class InvalidConfigurationException(ValueError):
    """The experiment configuration does not fit the code that uses it."""


class SearcherContextMissing(RuntimeError):
    """`searcher.operations()` needs `searcher.max_length`, which the configuration does not set."""


class CheckpointConflict(RuntimeError):
    """Two ranks saved different files with the same name, or different values for the same metadata key."""


class CheckpointCorrupt(RuntimeError):
    """A stored file differs in size or checksum from the file that was saved."""
