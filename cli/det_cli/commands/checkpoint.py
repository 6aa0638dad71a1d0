"""det checkpoint"""

from det_cli.commands.experiment import QUIET
from det_cli.declare import OUTPUT, YES, Arg, Command, Group

UUIDS = Arg("checkpoints_uuids", help="checkpoint UUIDs, separated by commas")

MEMBERS = {
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
            QUIET,
            Arg(
                "--mode",
                choices=["direct", "master", "auto"],
                default="auto",
                help="download from the storage, through the cluster, or try both",
            ),
        ),
        Command(
            "list",
            "list checkpoints of an experiment or a trial",
            "checkpoints:list_",
            Arg("--experiment-id", type=int, help="list checkpoints of this experiment"),
            Arg("--trial-id", type=int, help="list checkpoints of this trial"),
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
    )
}
