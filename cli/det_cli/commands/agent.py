"""det agent and det slot"""

from det_cli.declare import OUTPUT, Arg, Command, Group

WHICH = Arg("agent_id", nargs="?", help="the agent's id")
ALL = Arg("--all", action="store_true", help="every agent")

AGENT = Arg("agent_id", help="the agent's id")
SLOT = Arg("slot_id", help="the slot's number on that agent")

MEMBERS = {
    "agent": Group(
        "agent",
        "list, describe, enable and disable agents",
        Command(
            "describe",
            "show an agent's slots and the links between its GPUs",
            "agents:describe",
            AGENT,
            OUTPUT,
        ),
        Command(
            "disable",
            "stop scheduling work on an agent",
            "agents:disable",
            WHICH,
            ALL,
            Arg("--drain", action="store_true", help="let running tasks finish first"),
            OUTPUT,
        ),
        Command("enable", "resume scheduling work on an agent", "agents:enable", WHICH, ALL),
        Command("list", "list agents", "agents:list_", OUTPUT, aliases=["ls"]),
        Group(
            "token",
            "manage the tokens that agents use to join the cluster (administrators)",
            Command(
                "create",
                "create a token and print it; it is not shown again",
                "agents:create_token",
                Arg("--description", default="", help="the purpose of the token"),
                Arg(
                    "--expiration",
                    metavar="TIME",
                    default="24h",
                    help="lifetime, such as 90m or 240h",
                ),
                Arg("--agents", metavar="N", type=int, help="the number of agents that may use it"),
            ),
            Command("list", "list the tokens", "agents:list_tokens", OUTPUT, aliases=["ls"]),
            Command(
                "revoke",
                "revoke a token, so that agents can no longer use it",
                "agents:revoke_token",
                Arg("token_id", type=int),
            ),
        ),
        aliases=["a"],
        default="list",
    ),
    "slot": Group(
        "slot",
        "list, enable and disable slots",
        Command("disable", "stop scheduling work on a slot", "slots:disable", AGENT, SLOT),
        Command("enable", "resume scheduling work on a slot", "slots:enable", AGENT, SLOT),
        Command("list", "list slots", "slots:list_", OUTPUT, aliases=["ls"]),
        aliases=["s"],
        default="list",
    ),
}
