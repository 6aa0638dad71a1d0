"""Imports beside the database of a cloud cluster: requests of `det deploy aws|gcp import`."""

import io
from argparse import Namespace
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from det_controlplane.entry.importing import commands

# A Lambda function ends after 15 minutes. A slice begins no batch after this time, so each batch has 13 minutes.
SLICE_S = 120.0
EXIT_LINE = "import ended with status "
_OPTIONS: Mapping[str, Any] = {
    "logs": "all", "id_offset": 0, "merge_users": False, "dry_run": False, "name": "",
}  # fmt: skip


def run_slice(request: Mapping[str, Any], database_url: str) -> dict[str, Any]:
    """Run a part of an import. Return its exit status and its output."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        status = commands.main(*_command(request, database_url, SLICE_S))
    return {"status": status, "output": output.getvalue()}


def run(request: Mapping[str, Any], database_url: str) -> int:
    """Run an import to its end. The last line of the output has the exit status, because logs arrive late."""
    status = commands.main(*_command(request, database_url, 0))
    print(f"{EXIT_LINE}{status}", flush=True)
    return status


def _command(
    request: Mapping[str, Any], database_url: str, limit_s: float
) -> tuple[str, Namespace]:
    source = str(request["source"])
    if "://" not in source:
        source = f"file://{source}"  # there are no dumps here
    options = {name: request.get(name, default) for name, default in _OPTIONS.items()}
    action = "verify" if request.get("verify") else "determined"
    return action, Namespace(
        **options, source=source, into=database_url, mapping=None, limit_s=limit_s
    )
