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
        Group(
            "token",
            "manage tokens that agents join with (administrators)",
            Command(
                "create",
                "make a token, shown this once",
                "agent_tokens:create",
                Arg("--description", default="", help="what it is for"),
                Arg("--expiration", metavar="TIME", default="24h", help="such as 90m or 240h"),
                Arg("--agents", metavar="N", type=int, help="how many agents may join with it"),
            ),
            Command("list", "list the tokens", "agent_tokens:list_", OUTPUT, aliases=["ls"]),
            Command(
                "revoke",
                "let no agent join with a token any more",
                "agent_tokens:revoke",
                Arg("token_id", type=int),
            ),
        ),
        aliases=["a"],
        default="list",
    )
}
