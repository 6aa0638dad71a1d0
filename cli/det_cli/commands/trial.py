"""det trial"""

from det_cli.commands.experiment import QUIET, SORT
from det_cli.commands.log_options import log_options
from det_cli.declare import OUTPUT, Arg, Command, Group, OneOf, paging

ID = Arg("trial_id", type=int, help="the trial's number")

MEMBERS = {
    "trial": Group(
        "trial",
        "manage trials and read their logs",
        Command(
            "describe",
            "describe a trial and its workloads; --metrics adds its metrics",
            "trials:describe",
            ID,
            Arg("--metrics-summary", action="store_true", help="include a summary of the metrics"),
            Arg("--metrics", action="store_true", help="include the metrics of every batch"),
            Arg("--workloads", action="store_true", help="print only the workloads, one per line"),
            OUTPUT,
            *paging(1000),
        ),
        Command(
            "download",
            "download a checkpoint of a trial",
            "checkpoint_download:of_trial",
            ID,
            OneOf(
                Arg("--best", action="store_true", help="the checkpoint with the best metric"),
                Arg("--latest", action="store_true", help="the newest checkpoint"),
                Arg("--uuid", help="the checkpoint with this UUID"),
            ),
            Arg("-o", "--output-dir", help="destination directory"),
            *SORT,
            QUIET,
        ),
        Command("kill", "stop a trial immediately", "trials:kill", ID),
        Command("logs", "print a trial's logs", "logs:of_trial", ID, *log_options()),
        Group(
            "set",
            "change a trial",
            Command(
                "log-retention",
                "set how long to keep the logs",
                "experiment_settings:set_log_retention",
                ID,
                OneOf(Arg("--days", type=int), Arg("--forever", action="store_true")),
                values={"kind": "trial"},
            ),
        ),
        Command(
            "support-bundle",
            "write an archive with the logs and description of a trial",
            "trials:support_bundle",
            ID,
            Arg("-o", "--output-dir", default=".", help="destination directory"),
        ),
        aliases=["t"],
    )
}
