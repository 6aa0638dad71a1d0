"""The errors that user code may raise or catch."""


class InvalidHP(Exception):
    """Raised by a trial whose hyperparameters cannot work: it ends early and is not restarted."""

    def __init__(self, msg: str = "the trial's hyperparameters are invalid") -> None:
        super().__init__(msg)
        self.msg = msg


class InvalidConfigurationException(ValueError):
    """The experiment configuration and the code that runs under it contradict each other."""


class SearcherContextMissing(RuntimeError):
    """`searcher.operations()` needs `searcher.max_length`, and the configuration has none."""


class CheckpointConflict(RuntimeError):
    """Two ranks gave the same file, or different values for one metadata key, to one checkpoint."""


class CheckpointCorrupt(RuntimeError):
    """A stored file does not have the size or checksum that was recorded when it was saved."""
