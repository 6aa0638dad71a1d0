"""Failures on the user's side of the wire: a cause, and the way out."""


class Failure(Exception):
    """A failure told to a person in a sentence, with a hint where there is a next step."""

    def __init__(self, cause: str, hint: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.hint = hint


class SignInFailed(Failure):
    pass


class BadContext(Failure):
    """A context directory that cannot be sent."""
