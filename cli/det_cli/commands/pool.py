"""det pool"""

from det_cli.declare import OUTPUT, Arg, Command, Group

POOL = Arg("pool_name")

MEMBERS = {
    "pool": Group(
        "pool",
        "manage pools that rent machines",
        Command(
            "describe",
            "show a pool's offers and the cloud's refusals",
            "machines:describe_pool",
            POOL,
            OUTPUT,
        ),
        Command(
            "hold",
            "stop launching machines in a pool",
            "machines:hold",
            POOL,
            Arg("--reason", default="", help="the reason that users with queued jobs see"),
        ),
        Command(
            "list", "list pools that rent machines", "machines:list_pools", OUTPUT, aliases=["ls"]
        ),
        Command("resume", "resume launching machines in a pool", "machines:resume", POOL),
        Command("why", "explain why a pool launches no machines", "machines:why", POOL, OUTPUT),
        default="list",
    )
}
