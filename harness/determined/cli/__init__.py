"""Programs that users start as `python -m determined.cli.…`; the `det` command is `det_cli`."""
