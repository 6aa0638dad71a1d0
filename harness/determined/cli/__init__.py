"""Programs that users start as `python -m determined.cli` (the `det` command) and `python -m determined.cli.…`."""
