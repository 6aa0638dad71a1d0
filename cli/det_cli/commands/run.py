"""det run"""

from det_cli.declare import OUTPUT, Arg, Command, Group, paging, searching

MEMBERS = {
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
            *paging(200),
            OUTPUT,
            aliases=["ls"],
        ),
        default="list",
    )
}
