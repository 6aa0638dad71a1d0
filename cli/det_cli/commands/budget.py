"""det budget"""

from det_cli.declare import OUTPUT, Arg, Command, Group, OneOf

SCOPE = OneOf(
    Arg("--experiment", metavar="ID", help="for one experiment"),
    # `user` is the name of the one who calls.
    Arg("--user", metavar="NAME", dest="of_user", help="for everything of a user"),
    Arg("--workspace", metavar="NAME", help="for everything in a workspace"),
    Arg("--pool", metavar="NAME", help="for all machines of a resource pool"),
)

MEMBERS = {
    "budget": Group(
        "budget",
        "bound what is spent on machines",
        Command("delete", "delete a budget", "budgets:delete", Arg("budget_id", type=int)),
        Command("list", "list budgets and what is spent", "budgets:list_", OUTPUT, aliases=["ls"]),
        Command(
            "set",
            "set a budget in US dollars: at 80 % it warns, at 100 % work checkpoints and pauses",
            "budgets:set_",
            Arg("limit", help="the amount, for example 25 or 99.50"),
            SCOPE,
            Arg("--monthly", action="store_true", help="for each calendar month (UTC)"),
        ),
        aliases=["b"],
        default="list",
    )
}
