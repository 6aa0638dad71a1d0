"""The exit codes of `det deploy local`, and the error that chooses one."""

OK, FAILED, USAGE, NOT_FOUND, CONFLICT = 0, 1, 2, 3, 5


class LocalError(Exception):
    """An error for the user: its cause and remedy, and the exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
