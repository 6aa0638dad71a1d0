"""det instance"""

from det_cli.declare import OUTPUT, Arg, Command, Group

INSTANCE = Arg("instance_id", help="the instance's id")

MEMBERS = {
    "instance": Group(
        "instance",
        "list and terminate rented machines",
        Command(
            "describe", "show everything about a machine", "machines:describe", INSTANCE, OUTPUT
        ),
        Command(
            "list",
            "list rented machines",
            "machines:list_",
            Arg("--all", action="store_true", help="include terminated machines"),
            Arg("--pool", default="", help="only machines of this resource pool"),
            OUTPUT,
            aliases=["ls"],
        ),
        Command(
            "terminate",
            "terminate a machine; its jobs are rescheduled on other machines",
            "machines:terminate",
            INSTANCE,
            Arg("--yes", "-y", action="store_true", help="do not ask for confirmation"),
        ),
        aliases=["i"],
        default="list",
    )
}
