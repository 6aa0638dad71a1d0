"""The cluster itself: its identity, configuration, log and message."""

import argparse
from datetime import datetime, timezone
from typing import Any

from determined.common.http import MasterUnreachableError

from det_cli import __version__
from det_cli.connection import V1, address, anonymous, connect
from det_cli.errors import MissingError, UsageError
from det_cli.render import print_object, say

_TAKEN = ("level", "color")


def version(args: argparse.Namespace) -> int:
    data: dict[str, Any] = {"client": {"version": __version__}, "master_address": address(args)}
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
    paths = [f"log.{key}" for key in _TAKEN if key in log]
    body = {"config": {"log": log}, "fieldMask": {"paths": paths}}
    connect(args).patch(V1 + "/master/config", body)
    print("Changed the configuration of the cluster")


def logs(args: argparse.Namespace) -> None:
    params = {"follow": args.follow, "limit": args.tail, "offset": -args.tail if args.tail else 0}
    if args.follow:
        params["limit"] = None
    for answer in connect(args).stream_lines("GET", V1 + "/master/logs", params=params):
        entry = answer["logEntry"]
        level = entry["level"].removeprefix("LOG_LEVEL_")
        print(f"{entry['timestamp']} [{level}]: {entry['message']}", flush=args.follow)


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
