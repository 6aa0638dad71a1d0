"""det budget and det resources"""

from det_cli.declare import OUTPUT, Arg, Command, Group, IdArg, OneOf

SCOPE = OneOf(
    IdArg("--experiment", kind="experiment", metavar="ID", help="the cost of one experiment"),
    # `args.user` is the user who runs the command.
    Arg("--user", metavar="NAME", dest="of_user", help="the cost of a user's jobs"),
    Arg("--workspace", metavar="NAME", help="the cost of all jobs in a workspace"),
    Arg("--pool", metavar="NAME", help="the cost of all machines of a resource pool"),
)

SPAN = (
    Arg("timestamp_after", help="start time, such as 2026-11-01 or 2026-11-01T12:00:00Z (UTC)"),
    Arg("timestamp_before", help="end time, in the same form"),
)
JSON = Arg("--json", action="store_true", help="print JSON instead of CSV")

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
    ),
    "resources": Group(
        "resources",
        "report the usage and cost of resources",
        Command(
            "aggregated",
            "print slot-hours and cost per day or month, user, label and pool, as CSV",
            "usage:aggregated",
            Arg(
                "start_date",
                help="the first day, such as 2026-11-01; with --monthly the first month, such as 2026-11",
            ),
            Arg("end_date", help="the last day, inclusive; with --monthly the last month"),
            JSON,
            Arg("--monthly", action="store_true", help="group by month instead of by day"),
            aliases=["agg"],
        ),
        Command(
            "allocations",
            "print allocations with their slot-hours, as CSV",
            "usage:allocations",
            *SPAN,
            aliases=["alloc"],
        ),
        Command(
            "raw",
            "print allocations and rented machines with their cost, as CSV",
            "usage:raw",
            *SPAN,
            JSON,
        ),
        aliases=["res"],
    ),
}
