"""Import a Determined cluster with a process beside the database of a cluster in a cloud.

On AWS, the function that migrates the database imports a part at each call, because a function ends after 15
minutes. `google_import` has the job on Google Cloud."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from det_cli.deployment import aws_functions
from det_cli.errors import CommandError, MissingError, UsageError
from det_cli.render import Say

UNFINISHED = 75  # exit status of a part that is not the last one
_OPTIONS = ("source", "logs", "id_offset", "merge_users", "name", "dry_run", "verify")
_SCHEMES = ("postgresql://", "postgres://")
_TIMED_OUT = "timed out"
_MOST_TIME_OUTS = 2  # in sequence: then one batch takes longer than a call


def request_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the request for the process beside the database. Raises UsageError if the source is not a database."""
    if not args.source.startswith(_SCHEMES):
        raise UsageError(
            f"{args.source} is not the URL of a database",
            "give postgresql://USER:PASSWORD@HOST/DATABASE; restore a dump into a database that the cluster's"
            " network reaches",
        )
    if "sslrootcert=" in args.source:
        raise UsageError(
            "sslrootcert names a file of this machine, and the import runs in the cluster",
            "give sslmode=require instead, which encrypts and accepts any certificate",
        )
    if args.verify and args.dry_run:
        raise UsageError("--verify and --dry-run exclude each other", "leave one out")
    return {name: getattr(args, name) for name in _OPTIONS}


def run_on_aws(
    aws: aws_functions.MigrationFunctions, cluster_id: str, request: Mapping[str, Any], say: Say
) -> int:
    """Import on AWS. Return the exit status."""
    function, time_outs = f"det-{cluster_id}-migrate", 0
    while True:
        answer = aws_functions.call(aws, function, {"import": request}, "import")
        if answer is None:
            raise MissingError(
                f"there is no function {function} in this region",
                "`det deploy aws list` lists the clusters; give --cluster-id and --region",
            )
        if "status" in answer:
            time_outs = 0
            if answer["status"] != UNFINISHED:
                sys.stdout.write(answer["output"])
                return int(answer["status"])
            say(answer["output"].rstrip())
            continue
        message = str(answer.get("errorMessage", "no reason given"))
        time_outs += 1
        if _TIMED_OUT not in message or time_outs >= _MOST_TIME_OUTS:
            raise _failure(message, cluster_id)


def _failure(message: str, cluster_id: str) -> CommandError:
    if _TIMED_OUT in message:
        return CommandError(
            "one experiment takes longer to import than a function may run, which is 15 minutes",
            f"give the function more memory and processors: `det deploy aws up --cluster-id {cluster_id} --var"
            " 'memory_mb={migrate: 3538}'`, then run the same command again",
        )
    return CommandError(
        f"the import failed: {message}",
        "finished experiments stay imported; fix the cause and run the same command again",
    )
