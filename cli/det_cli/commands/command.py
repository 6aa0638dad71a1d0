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
    "run a command on the cluster and print its output",
    "interactive_start:run",
    TextArg(
        "entrypoint",
        nargs="...",
        help="the command; a single argument is run by a shell; without it, only the startup hook runs",
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
