"""An invariant is broken."""


class Violation(AssertionError):
    """The message says which, and how to see it again."""
