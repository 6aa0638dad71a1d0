"""det instance"""

from det_cli.declare import OUTPUT, Arg, Command, Group

INSTANCE = Arg("instance_id", help="the instance's id")

MEMBERS = {
    "instance": Group(
        "instance",
        "list rented machines, and give them back",
        Command(
            "describe", "show everything about a machine", "machines:describe", INSTANCE, OUTPUT
        ),
        Command(
            "list",
            "list rented machines",
            "machines:list_",
            Arg("--all", action="store_true", help="also those that have ended"),
            Arg("--pool", default="", help="of one resource pool"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "terminate",
            "give a machine back; what runs there moves",
            "machines:terminate",
            INSTANCE,
            Arg("--yes", "-y", action="store_true", help="do not ask"),
        ),
        aliases=["i"],
        default="list",
    )
}
