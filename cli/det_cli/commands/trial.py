"""det trial, det run and det checkpoint"""

from det_cli.declare import (
    BEST_CHECKPOINT,
    DOWNLOAD_QUIET,
    OUTPUT,
    PAGING,
    YES,
    Arg,
    Command,
    Group,
    IdArg,
    OneOf,
    log_options,
    number_or_old,
    searching,
)

ID = IdArg(
    "trial_id",
    kind="trial",
    type=number_or_old,
    help="the trial's number, or old:NUMBER for the number in an imported cluster",
)

UUIDS = Arg("checkpoints_uuids", help="checkpoint UUIDs, separated by commas")

MEMBERS = {
    "trial": Group(
        "trial",
        "manage trials and read their logs",
        Command(
            "describe",
            "summarize a trial; --table lists its workloads, --metrics adds their metrics",
            "trials:describe",
            ID,
            Arg("--metrics-summary", action="store_true", help="include a summary of the metrics"),
            Arg("--metrics", action="store_true", help="include the metrics of every batch"),
            Arg("--workloads", action="store_true", help="print only the workloads, one per line"),
            OUTPUT,
            *PAGING,
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
            *BEST_CHECKPOINT,
            DOWNLOAD_QUIET,
        ),
        Command(
            "continue",
            "train a trial on in a new experiment, from its newest checkpoint",
            "experiment_create:continue_trial",
            ID,
            Arg(
                "-f",
                "--follow-first-trial",
                action="store_true",
                help="print the logs until the experiment ends; exit with 1 unless it completed",
            ),
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
    ),
    "run": Group(
        "run",
        "search the runs of all experiments",
        Command(
            "list",
            "list runs: the trials of all experiments in one table",
            "runs:list_",
            Arg(
                "-a",
                "--all",
                action="store_true",
                help="include runs of all users and archived runs",
            ),
            *searching("validation.loss.min"),
            *PAGING,
            OUTPUT,
            aliases=["ls"],
        ),
        default="list",
    ),
    "checkpoint": Group(
        "checkpoint",
        "describe, download and delete checkpoints",
        Command("delete", "delete checkpoints", "checkpoints:delete", UUIDS, YES),
        Command("describe", "describe a checkpoint", "checkpoints:describe", Arg("uuid"), OUTPUT),
        Command(
            "download",
            "download a checkpoint",
            "checkpoint_download:one",
            Arg("uuid", help="the checkpoint's UUID"),
            Arg("-o", "--output-dir", help="destination directory (default: checkpoints/UUID)"),
            DOWNLOAD_QUIET,
            Arg(
                "--mode",
                choices=["direct", "master", "auto"],
                default="auto",
                help="download from the storage, through the cluster, or try both",
            ),
            Arg(
                "--consolidate",
                action="store_true",
                help="replace the shards of a sharded checkpoint by one state_dict.pth (needs PyTorch)",
            ),
        ),
        Command(
            "list",
            "list checkpoints of an experiment or a trial",
            "checkpoints:list_",
            IdArg(
                "--experiment-id",
                kind="experiment",
                type=number_or_old,
                help="list checkpoints of this experiment",
            ),
            IdArg(
                "--trial-id",
                kind="trial",
                type=number_or_old,
                help="list checkpoints of this trial",
            ),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "rm",
            "remove files from checkpoints",
            "checkpoints:remove",
            UUIDS,
            Arg(
                "--glob",
                action="append",
                default=[],
                metavar="PATTERN",
                help="the files to delete (may be repeated); without it, no file is deleted and the"
                " recorded file list is updated from the storage",
            ),
            YES,
        ),
        aliases=["c"],
    ),
}
