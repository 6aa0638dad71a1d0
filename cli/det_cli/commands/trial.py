"""det trial"""

from det_cli.commands.experiment import QUIET, SORT
from det_cli.commands.log_options import log_options
from det_cli.declare import OUTPUT, Arg, Command, Group, OneOf, paging

ID = Arg("trial_id", type=int, help="the trial's number")

MEMBERS = {
    "trial": Group(
        "trial",
        "describe trials, read their logs, stop them",
        Command(
            "describe",
            "describe a trial and its workloads, with --metrics also its metrics",
            "trials:describe",
            ID,
            Arg("--metrics-summary", action="store_true", help="with a summary of its metrics"),
            Arg("--metrics", action="store_true", help="with the metrics of every batch"),
            Arg("--workloads", action="store_true", help="only its workloads, one a line"),
            OUTPUT,
            *paging(1000),
        ),
        Command(
            "download",
            "download a checkpoint of a trial",
            "checkpoint_download:of_trial",
            ID,
            OneOf(
                Arg("--best", action="store_true", help="the best one"),
                Arg("--latest", action="store_true", help="the newest one"),
                Arg("--uuid", help="this one"),
            ),
            Arg("-o", "--output-dir", help="where to put it"),
            *SORT,
            QUIET,
        ),
        Command("kill", "stop a trial at once", "trials:kill", ID),
        Command("logs", "print a trial's logs", "logs:of_trial", ID, *log_options()),
        Group(
            "set",
            "change a trial",
            Command(
                "log-retention",
                "set how long its logs are kept",
                "experiment_settings:set_log_retention",
                ID,
                OneOf(Arg("--days", type=int), Arg("--forever", action="store_true")),
                values={"kind": "trial"},
            ),
        ),
        Command(
            "support-bundle",
            "pack logs and descriptions of a trial into one archive",
            "trials:support_bundle",
            ID,
            Arg("-o", "--output-dir", default=".", help="where to put it"),
        ),
        aliases=["t"],
    )
}
