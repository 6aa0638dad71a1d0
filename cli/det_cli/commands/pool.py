"""det pool"""

from det_cli.declare import OUTPUT, Arg, Command, Group

POOL = Arg("pool_name")

MEMBERS = {
    "pool": Group(
        "pool",
        "steer the pools that rent machines",
        Command(
            "describe", "show a pool's offers and refusals", "machines:describe_pool", POOL, OUTPUT
        ),
        Command(
            "hold",
            "have a pool launch nothing",
            "machines:hold",
            POOL,
            Arg("--reason", default="", help="shown to those who wait"),
        ),
        Command(
            "list", "list pools that rent machines", "machines:list_pools", OUTPUT, aliases=["ls"]
        ),
        Command("resume", "let a pool launch again", "machines:resume", POOL),
        Command("why", "tell what keeps a pool from launching", "machines:why", POOL, OUTPUT),
        default="list",
    )
}
