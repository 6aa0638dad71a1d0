"""det agent and det slot"""

from det_cli.declare import OUTPUT, Arg, Command, Group, OneOf, count, positive, web_address

WHICH = Arg("agent_id", nargs="?", help="the agent's id")
ALL = Arg("--all", action="store_true", help="every agent")

AGENT = Arg("agent_id", help="the agent's id")
SLOT = Arg("slot_id", help="the slot's number on that agent")
JOIN = (
    Arg("--ssh", metavar="FILE", required=True, help="file with one host per line and its options"),
    Arg("--pool", metavar="POOL", help="resource pool (default: the cluster's default pool)"),
    OneOf(
        Arg("--check", "--dry-run", action="store_true", dest="check", help="only check the hosts"),
        Arg("--remove", action="store_true", help="drain, stop and uninstall the agents"),
    ),
    Arg("--now", action="store_true", help="with --remove: return running tasks to the queue"),
    Arg(
        "--master-url",
        type=web_address,
        metavar="URL",
        help="address of the cluster for the hosts (default: the address that this command uses)",
    ),
    Arg("--ssh-user", metavar="USER", help="user of hosts without user="),
    Arg("--ssh-port", type=int, metavar="PORT", help="port of hosts without port="),
    Arg("--ssh-key", metavar="FILE", help="private key for hosts without key="),
    Arg(
        "--ssh-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of ssh, such as ProxyJump=bastion (may be repeated)",
    ),
    Arg(
        "--accept-new-host-keys",
        action="store_true",
        help="trust the host keys of unknown hosts; changed keys are still refused",
    ),
    Arg("--slots", metavar="SLOTS", help="slots of hosts without slots=, as for det-agent"),
    Arg(
        "--container-runtime",
        choices=["auto", "docker", "process"],
        help="how tasks run on hosts without runtime=",
    ),
    Arg("--take-over", action="store_true", help="replace agents that were installed otherwise"),
    Arg("--parallel", type=positive, default=10, metavar="N", help="hosts at a time (10)"),
    Arg(
        "--timeout",
        type=count,
        default=120,
        metavar="SECONDS",
        help="how long to wait until the cluster sees a started agent (120)",
    ),
    Arg(
        "--drain-timeout",
        type=count,
        default=600,
        metavar="SECONDS",
        help="with --remove: how long to wait for running tasks (600)",
    ),
    OUTPUT,
)

MEMBERS = {
    "agent": Group(
        "agent",
        "list, describe, enable, disable, move and join agents",
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
        Command(
            "join",
            "install the agent on machines that SSH reaches, upgrade it, or remove it (administrators)",
            "fleet:join",
            *JOIN,
        ),
        Command("list", "list agents", "agents:list_", OUTPUT, aliases=["ls"]),
        Command(
            "move",
            "move an agent to another pool when its work has ended",
            "agents:move",
            AGENT,
            Arg("pool_name", help="the pool that gets the agent"),
            Arg(
                "--preempt",
                action="store_true",
                help="ask its work to save checkpoints and stop, so that it moves soon",
            ),
        ),
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
