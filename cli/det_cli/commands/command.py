"""det command"""

from det_cli.commands.interactive import (
    CONFIG,
    CONFIG_FILE,
    CONTEXT,
    DETACH,
    TEMPLATE,
    VOLUME,
    WORKSPACE,
    members,
)
from det_cli.declare import Command, Group, TextArg

RUN = Command(
    "run",
    "run a command on the cluster, and print what it prints",
    "interactive_start:run",
    TextArg(
        "entrypoint",
        nargs="...",
        help="the command; one argument is a line for the shell. Without it the startup hook runs alone",
    ),
    CONFIG_FILE,
    VOLUME,
    *CONTEXT,
    WORKSPACE,
    CONFIG,
    TEMPLATE,
    DETACH,
)

MEMBERS = {
    "command": Group(
        "command",
        "run commands on the cluster",
        *members("command", "command"),
        RUN,
        aliases=["cmd"],
        default="list",
    )
}
