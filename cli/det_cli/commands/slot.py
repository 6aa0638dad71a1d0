"""det slot"""

from det_cli.declare import OUTPUT, Arg, Command, Group

AGENT = Arg("agent_id", help="the agent's id")
SLOT = Arg("slot_id", help="the slot's number on that agent")

MEMBERS = {
    "slot": Group(
        "slot",
        "list, enable and disable slots",
        Command("disable", "stop scheduling work on a slot", "slots:disable", AGENT, SLOT),
        Command("enable", "resume scheduling work on a slot", "slots:enable", AGENT, SLOT),
        Command("list", "list slots", "slots:list_", OUTPUT, aliases=["ls"]),
        aliases=["s"],
        default="list",
    )
}
