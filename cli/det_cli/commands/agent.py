"""det agent"""

from det_cli.declare import OUTPUT, Arg, Command, Group

WHICH = Arg("agent_id", nargs="?", help="the agent's id")
ALL = Arg("--all", action="store_true", help="every agent")

MEMBERS = {
    "agent": Group(
        "agent",
        "list, enable and disable agents",
        Command(
            "disable",
            "stop an agent from taking work",
            "agents:disable",
            WHICH,
            ALL,
            Arg("--drain", action="store_true", help="let its running tasks end first"),
            OUTPUT,
        ),
        Command("enable", "let an agent take work again", "agents:enable", WHICH, ALL),
        Command("list", "list agents", "agents:list_", OUTPUT, aliases=["ls"]),
        aliases=["a"],
        default="list",
    )
}
