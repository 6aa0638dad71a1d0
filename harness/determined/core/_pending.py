"""A checkpoint that is stored in the background."""

from concurrent.futures import Future


class PendingCheckpoint:
    """An upload in the background, while training continues."""

    def __init__(self, storage_id: str, future: "Future[None]") -> None:
        self.storage_id = storage_id
        self._future = future
        self._raised = False

    @property
    def done(self) -> bool:
        return self._future.done()

    def wait(self) -> str:
        """Block until the checkpoint is stored and reported. Raise the error if it failed."""
        error = self._future.exception()
        if error is not None:
            self._raised = True
            raise error
        return self.storage_id

    def _raise_once(self) -> None:
        """Wait, but raise an error only if no earlier call raised it."""
        if not self._raised:
            self.wait()
