"""det run"""

from det_cli.declare import OUTPUT, Arg, Command, Group, paging, searching

MEMBERS = {
    "run": Group(
        "run",
        "find runs of all experiments by any column",
        Command(
            "list",
            "list runs, which are the trials of all experiments in one table",
            "runs:list_",
            Arg("-a", "--all", action="store_true", help="of every user, archived ones too"),
            *searching("validation.loss.min"),
            *paging(200),
            OUTPUT,
            aliases=["ls"],
        ),
        default="list",
    )
}
