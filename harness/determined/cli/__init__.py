"""Programs that users run with `python -m`: `determined.cli` (the `det` command) and `determined.cli.tunnel`."""
