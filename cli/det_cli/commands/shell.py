"""det shell"""

from det_cli.commands.interactive import (
    CONFIG,
    CONFIG_FILE,
    CONTEXT,
    DETACH,
    TEMPLATE,
    VOLUME,
    WORKSPACE,
    id_of,
    members,
)
from det_cli.declare import Arg, Command, Group, TextArg

ID = id_of("shell", "shell")
SSH_OPTIONS = TextArg("ssh_opts", nargs="*", help="additional arguments for ssh, after `--`")
SHOW = Arg(
    "--show-ssh-command", action="store_true", help="print the ssh command before running it"
)


def _show(name: str) -> Command:
    return Command(
        name,
        "print the ssh command that opens a shell",
        "interactive_open:show_ssh",
        ID,
        SSH_OPTIONS,
    )


MEMBERS = {
    "shell": Group(
        "shell",
        "start and manage SSH shells",
        *members("shell", "shell"),
        Command("open", "open a shell", "interactive_open:open_shell", ID, SSH_OPTIONS, SHOW),
        _show("show-ssh-command"),
        _show("show_ssh_command"),
        Command(
            "start",
            "start a shell and open it",
            "interactive_start:shell",
            SSH_OPTIONS,
            CONFIG_FILE,
            WORKSPACE,
            VOLUME,
            *CONTEXT,
            CONFIG,
            TEMPLATE,
            DETACH,
            SHOW,
        ),
        default="list",
    )
}
