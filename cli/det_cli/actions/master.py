"""`det master`, `det version` and `det audit`: the configuration, the logs and the audit log of the cluster."""

import argparse
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from determined.common.http import MasterUnreachableError, Session

from det_cli import __version__, product_version
from det_cli.connection import V1, address, anonymous, connect, pages
from det_cli.errors import MissingError, UsageError
from det_cli.render import Column, cell, counted, local_time, print_object, say, show

_LOG_KEYS = ("level", "color")
_MARGIN = 200  # lines to re-read before the newest line, when only new lines are printed


def version(args: argparse.Namespace) -> int:
    client = {"version": __version__, "product_version": product_version()}
    data: dict[str, Any] = {"client": client, "master_address": address(args)}
    try:
        data["master"] = anonymous(args).get("/info")
    except MasterUnreachableError as e:
        data["master"] = None
        say(f"{e}\n")
    print_object(args, data)
    return 0


def info(args: argparse.Namespace) -> None:
    print_object(args, anonymous(args).get(V1 + "/master"))


def config(args: argparse.Namespace) -> None:
    print_object(args, connect(args).get(V1 + "/master/config")["config"])


def set_config(args: argparse.Namespace) -> None:
    log: dict[str, Any] = {}
    if args.log_level:
        log["level"] = f"LOG_LEVEL_{args.log_level}"
    if args.log_color:
        log["color"] = args.log_color == "on"
    if not log:
        raise UsageError("nothing to change", "give --log.level or --log.color")
    paths = [f"log.{key}" for key in _LOG_KEYS if key in log]
    body = {"config": {"log": log}, "fieldMask": {"paths": paths}}
    connect(args).patch(V1 + "/master/config", body)
    print("Changed the configuration of the cluster")


def logs(args: argparse.Namespace) -> None:
    session = connect(args)
    for entry in _entries(session, args.follow, args.tail):
        level = entry["level"].removeprefix("LOG_LEVEL_")
        print(f"{entry['timestamp']} [{level}]: {entry['message']}", flush=args.follow)


def _entries(session: Session, follow: bool, tail: int | None) -> Iterator[dict[str, Any]]:
    """Yield the control plane's log, or its last lines, and then new lines if `follow` is set."""

    def read(last: int, **more: Any) -> Iterator[dict[str, Any]]:
        params = {"offset": -last, **more}
        lines = session.stream_lines("GET", V1 + "/master/logs", params=params)
        return (line["logEntry"] for line in lines)

    if tail is None:
        yield from read(0, follow=follow)
    elif not follow:
        # The API reads limit 0 as unlimited, so `--tail 0` requests one line and drops it.
        yield from islice(read(max(tail, 1), limit=max(tail, 1)), tail)
    elif tail:
        yield from read(tail, follow=True)
    else:
        newest = max((int(entry["id"]) for entry in read(1, limit=1)), default=0)
        # Lines may arrive before the second request, so that request starts well before the newest line.
        yield from (e for e in read(_MARGIN, follow=True) if int(e["id"]) > newest)


def counts(args: argparse.Namespace) -> int:
    """Print the experiments with wrong counts. Return 1 if wrong counts remain."""
    session = connect(args)
    path = V1 + "/master/counts"
    response = session.post(f"{path}/repair") if args.repair else session.get(path)
    differences = response["differences"]
    if args.format:
        print_object(args, differences)
    elif not differences:
        print("All counts are correct")
    else:
        for d in differences:
            print(
                f"experiment {d['experimentId']}: trials {d['keptTrials']}, counted {d['trials']};"
                f" checkpoints {d['keptCheckpoints']}, counted {d['checkpoints']};"
                f" bytes {d['keptCheckpointSize']}, counted {d['checkpointSize']}"
            )
        print(
            f"{'Repaired' if args.repair else 'Wrong:'} {counted(len(differences), 'experiment')}"
        )
    return 1 if differences and not args.repair else 0


def get_message(args: argparse.Namespace) -> None:
    message = connect(args).get(V1 + "/master/cluster_message").get("clusterMessage")
    if message is None:
        raise MissingError("there is no cluster message")
    print_object(args, message)


def clear_message(args: argparse.Namespace) -> None:
    connect(args).delete(V1 + "/master/cluster_message")
    print("Cleared the cluster message")


def set_message(args: argparse.Namespace) -> None:
    start = datetime.now(timezone.utc).isoformat() if args.start == "now" else args.start
    body = {"message": args.message, "startTime": start}
    if args.end:
        body["endTime"] = args.end
    if args.duration:
        body["duration"] = args.duration
    connect(args).put(V1 + "/master/cluster_message", body)
    print("Set the cluster message")


_AUDIT_COLUMNS: tuple[Column, ...] = (
    ("Time", lambda e: local_time(e["at"])),
    ("User", lambda e: e["username"]),
    ("Action", lambda e: e["action"]),
    ("Object", lambda e: e["object"]),
    ("Details", lambda e: _details(e["details"])),
    ("By", lambda e: f"task {e['taskId']}" if e["taskId"] else e["via"]),
    ("From", lambda e: e["address"]),
)


def list_audit(args: argparse.Namespace) -> None:
    params = {**_audit_filters(args), "limit": args.limit, "orderBy": "ORDER_BY_DESC"}
    entries = connect(args).get(V1 + "/audit", params)["entries"]
    show(args, _AUDIT_COLUMNS, entries[: args.limit], empty="no entry matches the filters")


def export_audit(args: argparse.Namespace) -> None:
    for entry in pages(connect(args), "/audit", "entries", _audit_filters(args), limit=1000):
        print(json.dumps(entry, sort_keys=True))


def _audit_filters(args: argparse.Namespace) -> dict[str, Any]:
    filters = {
        "username": args.by, "object": args.object, "action": args.action, "since": args.since,
        "until": args.until,
    }  # fmt: skip
    return {name: value for name, value in filters.items() if value}


def _details(details: dict[str, Any]) -> str:
    items = [f"{name}={_text(value)}" for name, value in details.items() if name != "fields"]
    return ", ".join([*items, *details.get("fields", ())])


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(inner)}" for name, inner in value.items())
    return " ".join(map(_text, value)) if isinstance(value, list) else cell(value)
