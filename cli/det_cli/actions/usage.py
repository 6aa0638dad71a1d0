"""`det resources`: reports of usage and cost."""

import argparse
import re
import sys

from determined.common.http import error_from

from det_cli.connection import V1, connect
from det_cli.errors import UsageError
from det_cli.render import print_json

_REPORTS = "/resources/allocation"
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?")


def raw(args: argparse.Namespace) -> None:
    span = _span(args)
    if args.json:
        print_json(connect(args).get(f"{V1}{_REPORTS}/raw", span))
    else:
        _print_csv(args, "raw", span)


def allocations(args: argparse.Namespace) -> None:
    _print_csv(args, "allocations-csv", _span(args))


def aggregated(args: argparse.Namespace) -> None:
    period = "MONTHLY" if args.monthly else "DAILY"
    params = {
        "startDate": args.start_date,
        "endDate": args.end_date,
        "period": f"RESOURCE_ALLOCATION_AGGREGATION_PERIOD_{period}",
    }
    if args.json:
        print_json(connect(args).get(f"{V1}{_REPORTS}/aggregated", params))
    else:
        _print_csv(args, "aggregated", params)


def _print_csv(args: argparse.Namespace, report: str, params: dict[str, str]) -> None:
    status, _, body = connect(args).request_bytes("GET", f"{_REPORTS}/{report}", params=params)
    if status >= 300:
        raise error_from(status, body)
    sys.stdout.write(body.decode())


def _span(args: argparse.Namespace) -> dict[str, str]:
    times = {"timestampAfter": args.timestamp_after, "timestampBefore": args.timestamp_before}
    return {name: _time(text) for name, text in times.items()}


def _time(text: str) -> str:
    """Return a time in the API's format. A date means its first second in UTC."""
    if _TIME.fullmatch(text) is None:
        raise UsageError(
            f"'{text}' is not a time", "write it like 2026-11-01 or 2026-11-01T12:00:00Z (UTC)"
        )
    return text if "T" in text else f"{text}T00:00:00Z"
