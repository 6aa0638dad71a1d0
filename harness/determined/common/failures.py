"""Errors on the client side, with a cause and a hint."""


class Failure(Exception):
    """An error message for users: a sentence with the cause, and a hint if there is a next step."""

    def __init__(self, cause: str, hint: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.hint = hint


class SignInFailed(Failure):
    pass


class BadContext(Failure):
    """A context directory that cannot be sent."""
