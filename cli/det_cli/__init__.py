"""The `det` command line."""

__version__ = "0.38.1"
