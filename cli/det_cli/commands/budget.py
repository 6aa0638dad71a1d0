"""det budget"""

from det_cli.declare import OUTPUT, Arg, Command, Group, OneOf

SCOPE = OneOf(
    Arg("--experiment", metavar="ID", help="the cost of one experiment"),
    # `args.user` is the user who runs the command.
    Arg("--user", metavar="NAME", dest="of_user", help="the cost of a user's jobs"),
    Arg("--workspace", metavar="NAME", help="the cost of all jobs in a workspace"),
    Arg("--pool", metavar="NAME", help="the cost of all machines of a resource pool"),
)

MEMBERS = {
    "budget": Group(
        "budget",
        "limit the cost of rented machines",
        Command("delete", "delete a budget", "budgets:delete", Arg("budget_id", type=int)),
        Command("list", "list budgets and their spending", "budgets:list_", OUTPUT, aliases=["ls"]),
        Command(
            "set",
            "set a budget in US dollars: at 80 % it warns, at 100 % jobs save a checkpoint and pause",
            "budgets:set_",
            Arg("limit", help="the amount in US dollars, such as 25 or 99.50"),
            SCOPE,
            Arg(
                "--monthly", action="store_true", help="reset the budget each calendar month (UTC)"
            ),
        ),
        aliases=["b"],
        default="list",
    )
}
