"""Errors on the client side, with a cause and a hint."""


class Failure(Exception):
    """An error message for users: a sentence with the cause, and a hint if there is a next step."""

    def __init__(self, cause: str, hint: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.hint = hint


class CheckpointStateException(Failure):
    """A checkpoint that has no files, because it was deleted or is incomplete."""


class NoDirectStorageAccess(Failure):
    """This machine cannot read the storage of a checkpoint."""


class ProxiedDownloadFailed(Failure):
    """A download through the cluster was interrupted."""


class MultipleDownloadsFailed(Failure):
    """A checkpoint could be read neither from its storage nor through the cluster."""


class BadContext(Failure):
    """A context directory that cannot be sent."""


class MissingContext(BadContext):
    """A context directory that does not exist."""
